from ._library import functions

__getattr__ = functions("fused_layer_norm_cuda")
