#include "rows.cuh"

FORWARD_KERNEL(scaled_masked_softmax_warp_forward, !mask_row(a, row)[i])
BACKWARD_KERNEL(scaled_masked_softmax_warp_backward)
