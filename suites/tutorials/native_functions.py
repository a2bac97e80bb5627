# mypy: ignore-errors
# %% [markdown]
# # Functions in C, Rust, Fortran or Cython
#
# `bridge.native_kernel` makes a compiled function a JAX operation, whatever language it was written in. XLA calls it
# directly on its own buffers, without Python. You need no compiler for that, only for functions of your own.
#
# ## A function of a library
#
# SciPy ships the BLAS as capsules of Cython. `saxpy` computes `y = a * x + y` in place. Like all functions of Fortran
# it gets numbers by their addresses, so their types are pointers.

# %%
import ctypes
import shutil
import subprocess
import tempfile

import jax
import jax.numpy as jnp
from scipy.linalg import cython_blas

from bridge import native_kernel

jax.config.update("jax_default_device", "cpu")  # where the functions run; JAX prefers a GPU

numbers, count = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_int)
saxpy = native_kernel(
    cython_blas.__pyx_capi__["saxpy"],
    lambda x, y: y,  # the result has the shape and dtype of y
    lambda x, y, out: (x.size, 2.0, x, 1, out, 1),  # what saxpy is called with
    argtypes=(count, numbers, numbers, count, numbers, count),
    input_output_aliases={1: 0},  # y and the result share a buffer, which XLA copies if y lives on
)
x, y = jnp.arange(6.0).reshape(2, 3), jnp.ones(3)
print(jax.jit(jax.vmap(saxpy, (0, None)))(x, y))

# %% [markdown]
# ## A function of your own
#
# The types of a function's parameters may also be set as `ctypes` does it. A function that can fail returns a status:
# 0 for success. Any other number becomes the error of that call. Here it is the place of the first
# number that has no reciprocal.

# %%
SOURCE = """
int reciprocal(const float *x, int n, float *out) {
    for (int i = 0; i < n; i++)
        if (x[i] == 0) return i + 1;
        else out[i] = 1 / x[i];
    return 0;
}
"""
if (compiler := shutil.which("cc")) is None:
    print("This machine has no C compiler, so the rest is left out.")
    raise SystemExit

with tempfile.TemporaryDirectory() as folder:
    command = f"{compiler} -O2 -shared -fPIC -x c - -o {folder}/kernels.so"
    subprocess.run(command.split(), input=SOURCE.encode(), check=True)
    function = ctypes.CDLL(f"{folder}/kernels.so").reciprocal
function.argtypes = (numbers, ctypes.c_int, numbers)

reciprocal = native_kernel(function, lambda x: x, lambda x, out: (x, x.size, out), status=True)
assert jnp.allclose(reciprocal(x + 1), 1 / (x + 1))
try:
    jax.block_until_ready(reciprocal(x))
except (jax.errors.JaxRuntimeError, ValueError) as error:
    print(error)

# %% [markdown]
# Debug mode and `kernel-bridge validate` find what no compiler does: elements that are not written, and accesses
# outside of arrays. An exported program finds the function by the content of its library, in a process that wraps it
# too.
