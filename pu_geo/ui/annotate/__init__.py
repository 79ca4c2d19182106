"""The pieces of the Annotate screen, and the routes its clicks go over."""
