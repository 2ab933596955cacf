// Row-major matrix products through torch's cuBLAS handle. cuBLAS is not linked: torch has loaded
// it, and its symbols stay undefined in the module, as is usual for such extensions.
#pragma once

#include "binding.h"

#include <ATen/cuda/CUDAContextLight.h>

inline cudaDataType_t cuda_type(const Tensor& x) {
  switch (dtype_of(x)) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

// c [m, n] = op(a) op(b) + beta * c, accumulated in FP32. All contiguous.
inline void gemm(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                 const Tensor& c, float beta) {
  check_same_type(a, b);
  const int64_t m = c.size(0), n = c.size(1), k = transpose_a ? a.size(0) : a.size(1);
  TORCH_CHECK((transpose_a ? a.size(1) : a.size(0)) == m &&
                  (transpose_b ? b.size(1) : b.size(0)) == k &&
                  (transpose_b ? b.size(0) : b.size(1)) == n,
              "the matrices' sizes do not fit");
  const float alpha = 1.f;
  // cuBLAS is column-major: the transposed product, with the factors exchanged.
  const cublasStatus_t status = cublasGemmEx(
      at::cuda::getCurrentCUDABlasHandle(), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b.data_ptr(), cuda_type(b),
      b.size(1), a.data_ptr(), cuda_type(a), a.size(1), &beta, c.data_ptr(), cuda_type(c), n,
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLAS failed with status ", int(status));
}

inline Tensor matrix(const Tensor& x) { return x.contiguous().view({-1, x.size(-1)}); }
