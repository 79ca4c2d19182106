"""What a background job does: joins imagery, training and the project on disk."""
