from .multi_tensor_apply import MultiTensorApply

multi_tensor_applier = MultiTensorApply(65536)

__all__ = ["MultiTensorApply", "multi_tensor_applier"]
