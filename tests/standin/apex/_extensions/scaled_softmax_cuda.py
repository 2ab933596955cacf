from ._library import functions

__getattr__ = functions("scaled_softmax_cuda")
