from ._library import functions

__getattr__ = functions("fused_weight_gradient_mlp_cuda")
