from ._library import functions

__getattr__ = functions("scaled_masked_softmax_cuda")
