"""What an analyst is told and asked about each method: one file a method, without torch."""
