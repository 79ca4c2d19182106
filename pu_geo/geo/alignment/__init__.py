"""How far pre and post scenes lie from each other, measured and smoothed."""
