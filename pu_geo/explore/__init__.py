"""Embeddings, clusters, outliers and discovery."""
