"""Jobs of the Explore screen: UMAP, clusters, outliers, damage types."""
