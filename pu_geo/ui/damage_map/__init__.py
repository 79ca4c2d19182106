"""The pieces of the Damage map screen: accuracy assessment, areas, scenes, versions."""
