"""The default method: a whitened linear ranking and label propagation."""
