"""What an analyst reads and sets of each method: one file a method, without torch."""
