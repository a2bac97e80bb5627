// The limit to compare with: an element-wise float32 add as a typed XLA FFI handler for the CPU.

#include <cstddef>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error AddImpl(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> out) {
  const size_t size = out->element_count();
  if (x.element_count() != size || y.element_count() != size) {
    return ffi::Error::InvalidArgument("add: inputs and output differ in size");
  }
  const float* a = x.typed_data();
  const float* b = y.typed_data();
  float* __restrict__ sum = out->typed_data();
  for (size_t i = 0; i < size; ++i) sum[i] = a[i] + b[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Add, AddImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
