"""What is trained, and on what: the model, one training step in all its settings, the data."""
