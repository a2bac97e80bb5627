"""The calls of add that makers of kernel languages ship for JAX."""

from suites import TritonKernel
from suites.ops.add import triton
from suites.vendors.calls import ADDS, triton_call

KERNELS = {**ADDS, "jax_triton": triton_call(TritonKernel(triton.add_triton, triton.launch))}
