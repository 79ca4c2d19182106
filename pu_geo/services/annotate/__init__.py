"""What the Annotate screen asks for: labels, the queue, who else is here, the history of a building."""
