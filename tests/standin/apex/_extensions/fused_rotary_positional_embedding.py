from ._library import functions

__getattr__ = functions("fused_rotary_positional_embedding")
