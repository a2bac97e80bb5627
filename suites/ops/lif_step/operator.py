"""lif_step: one Euler step of leaky integrate-and-fire neurons, with threshold and reset.

``v = V + dt * (I - (V - V_rest) / tau)``. If ``v >= V_th``, the neuron spikes and v becomes ``V_rest``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from suites import CudaKernel, Operator, WarpKernel, total_bytes, vectors
from suites.backends import cuda_raw, pallas
from suites.kernels.half_precision import FLOATS, TUNED, in_float32
from suites.kernels.numba_cuda.vectors import neighbour_tiles
from suites.kernels.warp.blocks import per_stream_tile
from suites.ops.lif_step import numba_cpu, numba_cuda, warp
from suites.vendors.calls import mosaic_elementwise


def _step(V, current, tau_inv, V_th, V_rest, dt):
    v = V + dt * (-(V - V_rest) * tau_inv + current)
    return jnp.where(v >= V_th, V_rest, v), v >= V_th


def _reference(V, current, tau_inv, V_th, V_rest, dt):
    v = V + dt[0] * (-(V - V_rest[0]) * tau_inv[0] + current)
    spikes = v >= V_th[0]
    return [jnp.where(spikes, V_rest[0], v), spikes.astype(jnp.int32)]


def _constants(dtype, threshold=-55.0):
    return tuple(np.full(1, value, dtype) for value in (1 / 20, threshold, -70.0, 0.1))


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    return (
        random.uniform(-75, -54, size).astype(dtype),
        random.uniform(0, 5, size).astype(dtype),
        *_constants(dtype),
    )


def _edges(dtype):
    cases = {name: (vector, vector[::-1].copy(), *_constants(dtype)) for name, vector in vectors(dtype).items()}
    near = np.nextafter(np.full(64, -55, dtype), np.tile(np.array([-60, -50], dtype), 32))
    cases["around_threshold"] = (near, ((near + 70) / 20).astype(dtype), *_constants(dtype))
    cases["all_spike"] = (np.zeros(33, dtype), np.ones(33, dtype), *_constants(dtype))
    cases["nan_threshold"] = (np.zeros(3, dtype), np.ones(3, dtype), *_constants(dtype, np.nan))
    return cases


OPERATOR = Operator(
    name="lif_step",
    version=1,
    outputs=lambda V, *_: [jax.ShapeDtypeStruct(V.shape, V.dtype), jax.ShapeDtypeStruct(V.shape, np.int32)],
    reference=in_float32(_reference),
    kernels={
        "numba": numba_cpu.lif_step,
        "numba_parallel": numba_cpu.lif_step_parallel,
        "numba_cuda": CudaKernel(numba_cuda.lif_step_cuda, neighbour_tiles),
        "warp": WarpKernel(warp.lif_step_warp),
        "warp_tile": WarpKernel(warp.lif_step_tiles, per_stream_tile),
        "cuda_raw": cuda_raw.elementwise(
            "const auto v = V[i] + step * (-(V[i] - rest) * leak + current[i]);"
            "spikes[i] = v >= threshold;"
            "V_out[i] = v >= threshold ? rest : v;",
            ("V", "current", "tau_inv", "V_th", "V_rest", "dt"),
            ("T* V_out", "int* spikes"),
            "const auto leak = +tau_inv[0], threshold = +V_th[0], rest = +V_rest[0], step = +dt[0];",
        ),
        "pallas": pallas.elementwise(_step, long_inputs=2),
        "mosaic_gpu": mosaic_elementwise(_step, long_inputs=2),
    },
    dtypes=FLOATS,
    lacks={"warp_tile": TUNED},
    sample=_sample,
    edges=_edges,
    bytes_read=total_bytes,
    bytes_written=lambda V, *_: total_bytes(V) + 4 * V.size,
    gradient=None,  # it is undefined at the threshold, where users put a surrogate
    flops=lambda V, *_: 6 * V.size,
)
