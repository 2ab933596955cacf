from ._library import functions

__getattr__ = functions("syncbn")
