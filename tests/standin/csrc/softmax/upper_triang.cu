#include "rows.cuh"

// Query q sees keys 0 to q.
FORWARD_KERNEL(scaled_upper_triang_masked_softmax_warp_forward, i <= row % a.queries)
BACKWARD_KERNEL(scaled_upper_triang_masked_softmax_warp_backward)
