"""Jobs of the Annotate screen: labels in and out."""
