"""The pieces of the Explore screen: clusters, neighbors, outliers, selections, damage types."""
