"""What the Imagery screen asks for: scenes, footprints, chips, and their quality."""
