"""Hands lists of tensors to a function of amp_C."""

from .._compiled import module


class MultiTensorApply:
    """Whether amp_C can be imported is found out once; any ImportError is kept and not raised."""

    available = False
    import_err = None

    def __init__(self, chunk_size):
        self.chunk_size = chunk_size
        try:
            module("amp_C")
            MultiTensorApply.available = True
        except ImportError as error:
            MultiTensorApply.import_err = error

    def __call__(self, function, flag, tensor_lists, *arguments):
        if not self.available:
            raise RuntimeError(
                "multi_tensor_apply was called, and amp_C could not be imported: "
                f"{MultiTensorApply.import_err}"
            )
        return function(self.chunk_size, flag, tensor_lists, *arguments)
