"""Defines, calls and releases many distinct kernels, shapes and operators in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from reports import Endurance
from suites.endurance.memory_use import MemoryUse
from suites.endurance.trial import EnduranceTrial, TrialError, TrialUnavailableError

SAMPLES = 50
"""Samples of a trial, at most."""

WARM_UP = 5
"""Kernels before the first sample."""

ALLOWED_BYTES_PER_KERNEL = 400_000
"""Growth for each kernel that is no leak: loaded machine code stays, and what Numba keeps of a kernel."""

SIZE = 16

Use = Callable[[int], np.ndarray[Any, Any]]
"""Defines the n-th kernel, which adds n to zeros, and returns its result."""


def endure_kernels(trial: EnduranceTrial) -> Endurance:
    """Runs a trial of kernels: each is defined, called, checked and released.

    Args:
        trial: ``count`` kernels follow :data:`WARM_UP` others.

    Raises:
        TrialError: A result is wrong.
        TrialUnavailableError: The kernel language is not installed.

    Numba alone is there for comparison, so no growth of it is a leak.
    """
    use = _USES[trial.platform, trial.subject]()
    memory = MemoryUse(trial.platform)
    often = -(-trial.count // SAMPLES)
    with jax.default_device(jax.devices(trial.platform)[0]):
        for number in range(1, WARM_UP + trial.count + 1):
            result = use(number)
            if not np.all(result == number):
                raise TrialError(f"kernel {number} adds {number} to zeros and gave {result.ravel()[:4]}...")
            jax.clear_caches()
            bridge.release()
            done = number - WARM_UP
            if done >= 0 and (done % often == 0 or done == trial.count):
                memory.sample(done)
    ours = trial.subject != "numba-alone"
    allowed = ALLOWED_BYTES_PER_KERNEL * trial.count if ours else None
    return Endurance(unit="kernel", samples=memory.samples, allowed_bytes=allowed)


def _shift(number: int) -> Any:
    """Returns a new Numba kernel that adds ``number``."""
    amount = np.float32(number)

    @numba.njit
    def shift(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[i] + amount

    return shift


def _spec(size: int = SIZE) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size,), jnp.float32)


def _zeros(size: int = SIZE) -> jax.Array:
    zeros: jax.Array = jax.device_put(np.zeros(size, np.float32))  # compiles nothing
    return zeros


def _numba() -> Use:
    return lambda number: np.asarray(bridge.numba_kernel(_shift(number), _spec())(_zeros()))


def _numba_alone() -> Use:
    types = (numba.types.Array(numba.float32, 1, "C", readonly=True), numba.float32[::1])

    def use(number: int) -> np.ndarray[Any, Any]:
        kernel = _shift(number)
        kernel.compile(types)
        zeros, out = np.zeros(SIZE, np.float32), np.empty(SIZE, np.float32)
        zeros.flags.writeable = False
        kernel(zeros, out)
        return out

    return use


def _operator() -> Use:
    def use(number: int) -> np.ndarray[Any, Any]:
        operator = bridge.XLACustomKernel(f"shift_{number}", outs=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
        operator.def_numba_kernel(lambda outs: bridge.numba_kernel(_shift(number), outs[0]))
        return np.asarray(operator(_zeros()))

    return use


def _shapes() -> Use:
    @numba.njit
    def count(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[i] + x.size

    return lambda number: np.asarray(bridge.numba_kernel(count, _spec(number))(_zeros(number)))


def _warp() -> Use:
    try:
        from suites.endurance.warp_shifts import warp_shift
    except ImportError as error:
        raise TrialUnavailableError("Warp is not installed; install the extra warp") from error

    def use(number: int) -> np.ndarray[Any, Any]:
        (result,) = bridge.jax_kernel(warp_shift(number))(_zeros())
        return np.asarray(result)

    return use


def _numba_cuda() -> Use:
    try:
        from numba import cuda
    except ImportError as error:
        raise TrialUnavailableError("numba-cuda is not installed; install the extra cuda12 or cuda13") from error

    def use(number: int) -> np.ndarray[Any, Any]:
        amount = np.float32(number)

        @cuda.jit
        def shift(x, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i] + amount

        return np.asarray(bridge.numba_cuda_kernel(shift, _spec(), grid=1, block=SIZE)(_zeros()))

    return use


def _cuda_raw() -> Use:
    source = (
        'extern "C" __global__ void shift(const float* x, float* out) {{ out[threadIdx.x] = x[threadIdx.x] + {}; }}'
    )
    return lambda number: np.asarray(
        bridge.cuda_raw_kernel(source.format(f"{number}.0f"), "shift", _spec(), grid=1, block=SIZE)(_zeros())
    )


_USES: dict[tuple[str, str], Callable[[], Use]] = {
    ("cpu", "numba"): _numba,
    ("cpu", "numba-alone"): _numba_alone,
    ("cpu", "operator"): _operator,
    ("cpu", "shapes"): _shapes,
    ("cpu", "warp"): _warp,
    ("cuda", "numba-cuda"): _numba_cuda,
    ("cuda", "cuda-raw"): _cuda_raw,
    ("cuda", "warp"): _warp,
}
