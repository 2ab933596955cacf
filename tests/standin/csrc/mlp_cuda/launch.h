#pragma once
#include "../common/types.h"

enum class Activation { none, relu, sigmoid };

// In place on y [rows, width]; a null bias is none.
LAUNCH_API void launch_activate(void* y, const void* bias, DType, Activation, int64_t rows,
                                int64_t width, cudaStream_t) LAUNCHER
// dz = dy * activation'(y), from the activation's output y.
LAUNCH_API void launch_activate_backward(const void* dy, const void* y, void* dz, DType, Activation,
                                         int64_t rows, int64_t width, cudaStream_t) LAUNCHER
LAUNCH_API void launch_bias_backward(const void* dz, void* dbias, DType, int64_t rows,
                                     int64_t width, cudaStream_t) LAUNCHER
