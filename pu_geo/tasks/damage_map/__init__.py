"""Jobs of the Damage map screen: the map, its exports, areas, report."""
