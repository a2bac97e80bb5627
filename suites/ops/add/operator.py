"""add: ``out[i] = x[i] + y[i]``. The example to copy: the declaration of an operator, without its kernels."""

import jax
import numpy as np

from suites import CutileKernel, ErrorCase, Failure, Gradient, Operator, TritonKernel, WarpKernel, value_errors, vectors
from suites.backends import cuda_raw, pallas
from suites.kernels.half_precision import LOSES_NAN
from suites.ops.add import cutile, numba_cpu, numba_cuda, triton, vendors, warp

UNEQUAL = np.zeros(4, np.float32), np.zeros(3, np.float32)
REFUSED = {"jnp": Failure(TypeError, "incompatible shapes"), **value_errors("add: x and y must have one length")}

OPERATOR = Operator(
    name="add",
    version=2,
    reference=lambda x, y: x + y,
    outputs=lambda x, y: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
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
        **vendors.KERNELS,
    },
    dtypes=("float32", "float64", "int32", "int64", "float16", "bfloat16"),
    lacks=LOSES_NAN,
    shapes=("n", "n"),
    edges=lambda dtype: {name: (vector, vector[::-1].copy()) for name, vector in vectors(dtype).items()},
    errors=[ErrorCase("unequal_lengths", lambda: UNEQUAL, REFUSED)],
    gradient=Gradient(inputs=(0, 1)),
    flops=lambda x, y: x.size,
)
