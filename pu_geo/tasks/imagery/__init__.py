"""Jobs of the Imagery screen: add scenes, footprints, areas of interest; align; cut chips."""
