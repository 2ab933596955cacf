"""Measures Transformer training with and without Apex."""
