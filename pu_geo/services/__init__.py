"""What pages and the command line ask for. Answers fast and never imports torch, rasterio, faiss or umap."""
