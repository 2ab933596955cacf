from ._library import functions

__getattr__ = functions("fused_adam_cuda")
