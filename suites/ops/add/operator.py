"""add: ``out[i] = x[i] + y[i]``. The example to copy: what an operator is, beside its kernels."""

import jax
import numpy as np

from suites import (
    CutileKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    TritonKernel,
    WarpKernel,
    total_bytes,
    value_errors,
    values,
    vectors,
)
from suites.backends import cuda_raw, pallas
from suites.ops.add import cutile, numba_cpu, numba_cuda, triton, warp
from suites.vendors.calls import (
    CUTILE_ADD,
    CUTLASS_ADD,
    JAX_TVM_FFI_ADD,
    TVM_FFI_ADD,
    mosaic_elementwise,
    triton_call,
)


def _edges(dtype):
    return {name: (vector, vector[::-1].copy()) for name, vector in vectors(dtype).items()}


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return values(dtype, size, random), values(dtype, size, random)


OPERATOR = Operator(
    name="add",
    version=1,
    outputs=lambda x, y: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x, y: [x + y],
    kernels={
        "numba": numba_cpu.add,
        "numba_parallel": numba_cpu.add_parallel,
        "numba_cuda": numba_cuda.add_cuda,
        "numba_cuda_mlir": numba_cuda.add_wide,
        "warp": WarpKernel(warp.add_warp, warp.launch),
        "cuda_raw": cuda_raw.elementwise("out[i] = x[i] + y[i];", ("x", "y")),
        "pallas": pallas.elementwise(lambda x, y: [x + y]),
        "triton": TritonKernel(triton.add_triton, triton.launch),
        "cutile_kernel": CutileKernel(cutile.add_cutile, cutile.launch),
        "jax_triton": triton_call(TritonKernel(triton.add_triton, triton.launch)),
        "cutlass": CUTLASS_ADD,
        "cutile": CUTILE_ADD,
        "jax_tvm_ffi": JAX_TVM_FFI_ADD,
        "tvm_ffi": TVM_FFI_ADD,
        "mosaic_gpu": mosaic_elementwise(lambda x, y: [x + y]),
    },
    dtypes=("float32", "float64", "int32", "int64", "float16"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.zeros(4, np.float32), np.zeros(3, np.float32)),
            {
                "jnp": Failure(TypeError, "incompatible shapes"),
                **value_errors("add: x and y must have one length"),
            },
        ),
    ),
    gradient=Gradient(inputs=(0, 1)),
    bytes_read=total_bytes,
    bytes_written=lambda x, y: total_bytes(x),
    flops=lambda x, y: x.size,
)
