"""The stand-in's Python side. Importing it works with or without the compiled modules."""

from . import multi_tensor_apply, normalization, optimizers

__all__ = ["multi_tensor_apply", "normalization", "optimizers"]
