from ._library import functions

__getattr__ = functions("mlp_cuda")
