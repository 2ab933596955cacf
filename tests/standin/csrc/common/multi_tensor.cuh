// One launch for many tensors: their addresses and a map from block to (tensor, chunk) travel as
// the kernel's argument, whose limit of 4 KiB bounds how many fit.
#pragma once

#include "device.cuh"
#include "multi_tensor.h"

constexpr int kMaxBlocks = 320;
constexpr int kMaxTensors[] = {110, 64, 48, 36, 30, 24};

template <int N>
struct TensorListMetadata {
  void* addresses[N][kMaxTensors[N - 1]];
  int64_t sizes[kMaxTensors[N - 1]];
  int first_tensor;
  unsigned char block_to_tensor[kMaxBlocks];
  int block_to_chunk[kMaxBlocks];
};

// The part of one tensor that this block works on: elements [begin, end).
template <int N>
struct Chunk {
  __device__ Chunk(int64_t chunk_size, const TensorListMetadata<N>& meta) : meta(meta) {
    tensor = meta.block_to_tensor[blockIdx.x];
    begin = meta.block_to_chunk[blockIdx.x] * chunk_size;
    end = min(begin + chunk_size, meta.sizes[tensor]);
  }
  template <typename T>
  __device__ T* list(int i) const {
    return static_cast<T*>(meta.addresses[i][tensor]);
  }
  const TensorListMetadata<N>& meta;
  int tensor;
  int64_t begin, end;
};

template <typename Metadata, typename Functor, typename... Arguments>
__global__ void __launch_bounds__(kThreads)
    multi_tensor_apply_kernel(int64_t chunk_size, int* flag, const Metadata metadata,
                              Functor functor, Arguments... arguments) {
  functor(chunk_size, flag, metadata, arguments...);
}

// A launch goes out when the tensors or the blocks of the argument are used up.
template <int N, typename Functor, typename... Arguments>
void multi_tensor_apply(const TensorLists& lists, int64_t chunk_size, int* flag,
                        cudaStream_t stream, Functor functor, Arguments... arguments) {
  TensorListMetadata<N> meta;
  int tensors = 0, blocks = 0;
  meta.first_tensor = 0;
  auto launch = [&] {
    if (blocks > 0 && !launch_left_out())
      multi_tensor_apply_kernel<<<blocks, kThreads, 0, stream>>>(chunk_size, flag, meta, functor,
                                                                 arguments...);
    blocks = 0;
  };
  for (int t = 0; t < lists.count; ++t) {
    if (lists.sizes[t] == 0 && tensors == 0) meta.first_tensor = t + 1;
    if (lists.sizes[t] == 0 && tensors > 0) {
      // l2norm finds a tensor's place by its distance from the first, so a gap ends the launch.
      launch();
      tensors = 0;
      meta.first_tensor = t + 1;
    }
    if (lists.sizes[t] == 0) continue;
    for (int i = 0; i < N; ++i) meta.addresses[i][tensors] = lists.address(i, t);
    meta.sizes[tensors++] = lists.sizes[t];
    const int64_t chunks = (lists.sizes[t] + chunk_size - 1) / chunk_size;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      meta.block_to_tensor[blocks] = static_cast<unsigned char>(tensors - 1);
      meta.block_to_chunk[blocks++] = static_cast<int>(chunk);
      const bool tensor_done = chunk == chunks - 1;
      if (blocks < kMaxBlocks && !(tensor_done && tensors == kMaxTensors[N - 1])) continue;
      launch();
      if (tensor_done) {
        tensors = 0;
        meta.first_tensor = t + 1;
        continue;
      }
      // The rest of this tensor begins the next launch.
      for (int i = 0; i < N; ++i) meta.addresses[i][0] = lists.address(i, t);
      meta.sizes[0] = lists.sizes[t];
      tensors = 1;
      meta.first_tensor = t;
    }
  }
  launch();
}
