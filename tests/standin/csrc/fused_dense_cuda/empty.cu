// No kernel: modules whose work is cuBLAS's still carry a fatbin, and this gives them one.
