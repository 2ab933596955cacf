#include "rows.cuh"

FORWARD_KERNEL(scaled_softmax_warp_forward, true)
BACKWARD_KERNEL(scaled_masked_softmax_warp_backward)
