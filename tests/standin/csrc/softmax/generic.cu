#include "rows.cuh"

FORWARD_KERNEL(scaled_masked_softmax_warp_forward_new, !mask_row(a, row)[i])
BACKWARD_KERNEL(scaled_masked_softmax_warp_backward_new)
