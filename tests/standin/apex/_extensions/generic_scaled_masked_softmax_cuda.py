from ._library import functions

__getattr__ = functions("generic_scaled_masked_softmax_cuda")
