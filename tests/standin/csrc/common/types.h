// What the bindings and the kernel files share: no torch header, so that kernels compile in seconds.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

enum class DType { f32, f16, bf16 };

// Ends the declaration of each launch function. A build without device code (a sabotage) gives the
// functions an empty body instead, so that the module still links and imports.
#ifdef STANDIN_NO_DEVICE_CODE
#define LAUNCHER {}
#define LAUNCH_API inline
#else
#define LAUNCHER ;
#define LAUNCH_API
#endif
