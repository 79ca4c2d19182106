"""The pieces of the Damage map screen: audit, areas, scenes, versions."""
