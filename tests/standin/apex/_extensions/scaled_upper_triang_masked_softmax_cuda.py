from ._library import functions

__getattr__ = functions("scaled_upper_triang_masked_softmax_cuda")
