from .fused_softmax import FusedScaleMaskSoftmax

__all__ = ["FusedScaleMaskSoftmax"]
