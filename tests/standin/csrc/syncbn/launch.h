#pragma once
#include "../common/types.h"

// x is [outer, channels, inner].
LAUNCH_API void launch_welford(const void* x, DType, float* mean, float* variance, int64_t outer,
                               int64_t channels, int64_t inner, cudaStream_t) LAUNCHER
