"""The pieces of the Imagery screen: scenes, footprints, chips, and whether the scene pair is usable."""
