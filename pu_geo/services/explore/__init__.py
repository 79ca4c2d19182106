"""What the Explore screen asks for: embeddings, clusters, neighbors, outliers, selections, damage types."""
