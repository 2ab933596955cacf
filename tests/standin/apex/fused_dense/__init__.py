from .fused_dense import FusedDense, fused_dense_function

__all__ = ["FusedDense", "fused_dense_function"]
