# mypy: ignore-errors
# %% [markdown]
# # CUDA libraries on XLA's stream
#
# `bridge.native_kernel` also takes functions that work on a GPU: a library of your own, built by `nvcc`, or one that
# takes a stream. Such a function runs on the host, once in each call. It gets pointers to device memory and XLA's
# stream, enqueues its work there, and returns without waiting.

# %%
import ctypes
import shutil
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from bridge import STREAM, native_kernel

SOURCE = """
__global__ void scaled(const float *x, float *out, long n, float factor) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
extern "C" int scale(cudaStream_t stream, const float *x, long n, float factor, float *out) {
    if (n) scaled<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n, factor);
    return cudaGetLastError();
}
"""
compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
if jax.default_backend() != "gpu" or compiler is None:
    print("This machine has no GPU, or no nvcc, so the rest is left out.")
    raise SystemExit

with tempfile.TemporaryDirectory() as folder:
    command = f"{compiler} -shared -Xcompiler -fPIC -arch=native -x cu - -o {folder}/kernels.so"
    subprocess.run(command.split(), input=SOURCE.encode(), check=True)
    library = ctypes.CDLL(f"{folder}/kernels.so")

# %% [markdown]
# `STREAM` stands for the stream, wherever the function takes it. With `status=True` an error of CUDA is the error of
# the call. `capturable=True` says that the function does nothing but enqueue: it does not allocate, does not wait, and
# need not be called each time. XLA then may record its work into a CUDA graph and repeat it without a call.

# %%
scale = native_kernel(
    library.scale,
    lambda x: x,  # the result has the shape and dtype of x
    lambda x, out: (STREAM, x, x.size, np.float32(2), out),
    status=True,
    platform="cuda",
    capturable=True,
)
x = jnp.arange(6.0).reshape(2, 3)
print(jax.jit(lambda x: scale(x + 1))(x))
assert (jax.vmap(scale)(x) == 2 * x).all()  # one call of the function for each row

# %% [markdown]
# The device of a call is the current one. Errors of kernels that run already show later, as for any kernel of CUDA.
#
# ## TVM-FFI and CuTe DSL
#
# `bridge.tvm_ffi_kernel` takes a function of TVM-FFI, such as one of `tvm_ffi.load_module`. It needs no description of
# its arguments if they are the inputs and then the outputs. CuTe DSL makes such functions: compile with
# `cute.compile(f, *arrays, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi")`, and call
# `tvm_ffi_kernel(compiled, outs, platform="cuda")`.
