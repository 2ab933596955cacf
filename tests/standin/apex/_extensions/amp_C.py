from ._library import functions

__getattr__ = functions("amp_C", prefix="amp")
