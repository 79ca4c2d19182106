"""Jobs of the Train screen: train, apply a model, benchmark."""
