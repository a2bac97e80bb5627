// The limit to compare with: an element-wise float32 add as typed XLA FFI handlers for CUDA, launched on XLA's stream.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

constexpr int kBlock = 256;

static __global__ void AddKernel(const float* x, const float* y, float* out, size_t size) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = x[i] + y[i];
}

static ffi::Error AddImpl(cudaStream_t stream, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y,
                          ffi::ResultBuffer<ffi::F32> out) {
  const size_t size = out->element_count();
  if (x.element_count() != size || y.element_count() != size) {
    return ffi::Error::InvalidArgument("add: inputs and output differ in size");
  }
  if (size == 0) return ffi::Error::Success();
  const unsigned grid = static_cast<unsigned>((size + kBlock - 1) / kBlock);
  AddKernel<<<grid, kBlock, 0, stream>>>(x.typed_data(), y.typed_data(), out->typed_data(), size);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return ffi::Error::Internal(std::string("add: ") + cudaGetErrorString(status));
  return ffi::Error::Success();
}

static auto Binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<cudaStream_t>>()
      .Arg<ffi::Buffer<ffi::F32>>()
      .Arg<ffi::Buffer<ffi::F32>>()
      .Ret<ffi::Buffer<ffi::F32>>();
}

// XLA may record this one into a command buffer (a CUDA graph) and replay it.
XLA_FFI_DEFINE_HANDLER_SYMBOL(Add, AddImpl, Binding(), {ffi::Traits::kCmdBufferCompatible});

// XLA calls this one each time.
XLA_FFI_DEFINE_HANDLER_SYMBOL(AddUncaptured, AddImpl, Binding());
