"""The backends an operator can be implemented in, and how each makes a JAX callable of its kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import jax

from bridge import cuda_raw_kernel, jax_kernel, numba_cuda_callable, numba_cuda_kernel, numba_kernel
from suites.backends.numba_cuda_blocks import MISSING as NO_NUMBA_CUDA
from suites.backends.numba_cuda_blocks import NO_CUDA_CORE


@dataclass(frozen=True)
class CudaKernel:
    """A Numba-CUDA kernel and how it is launched.

    Attributes:
        dispatcher: What :func:`suites.backends.numba_cuda_blocks.kernel` made of the kernel.
        launch: From the inputs and outputs of a call (anything with shape and dtype) to the launch arguments of
            :func:`bridge.numba_cuda_kernel`.
        atomic: Whether atomic operations add floats up: on a GPU their order varies, and the last bits with it.
    """

    dispatcher: Any
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]
    atomic: bool = False


@dataclass(frozen=True)
class CudaCallable:
    """A Python function that launches several Numba-CUDA kernels, as :func:`bridge.numba_cuda_callable` takes it.

    Its launches depend on shapes and dtypes alone, so that they can be replayed.
    """

    function: Callable[..., None]


@dataclass(frozen=True)
class WarpKernel:
    """A Warp kernel and how it is called; it runs on the CPU and on CUDA.

    Attributes:
        kernel: From the name of the first input's dtype to the ``warp.Kernel``; the same kernel each time.
        options: From the inputs and outputs of a call (anything with shape and dtype) to the options of
            :func:`bridge.jax_kernel`.
        initial: From the outputs to the initial values of those that are no inputs of the operator, but accumulated
            into by the kernel (``in_out_argnames``): arguments that follow the inputs.
        atomic: As for a :class:`CudaKernel`.
    """

    kernel: Callable[[str], Any]
    options: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]] = lambda inputs, outs: {}
    initial: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    atomic: bool = False


@dataclass(frozen=True)
class WarpCallable:
    """A JAX function that calls Warp kernels, such as two of them with a temporary array in between.

    Attributes:
        make: From the inputs and outputs of a call to a function of arrays that returns a list of outputs.
        calls: How many kernels the function calls.
        atomic: As for a :class:`CudaKernel`.
    """

    make: Callable[[Sequence[Any], Sequence[Any]], Callable[..., Sequence[Any]]]
    calls: int
    atomic: bool = False


@dataclass(frozen=True)
class RawKernel:
    """A kernel in CUDA C++.

    Attributes:
        source: A template of the element type.
        name: From the name of a dtype to that of its instance.
        launch: From the inputs and outputs of a call to the launch arguments of :func:`bridge.cuda_raw_kernel`.
    """

    source: str
    name: Callable[[str], str]
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]


@dataclass(frozen=True)
class PallasKernel:
    """A kernel in Pallas.

    Attributes:
        make: From the inputs and outputs of a call to a function of arrays that returns a list of outputs.
    """

    make: Callable[[Sequence[Any], Sequence[Any]], Callable[..., list[jax.Array]]]


Kernel = Callable[..., Any] | CudaKernel | CudaCallable | WarpKernel | WarpCallable | RawKernel | PallasKernel
"""What an operator declares for a backend; for ``jnp`` it is a function of JAX arrays, for Numba a dispatcher."""


def _build_jnp(kernel: Any, inputs: Any, outs: Any) -> Any:
    return kernel


def _build_numba(kernel: Any, inputs: Any, outs: Any) -> Any:
    return numba_kernel(kernel, outs)


def _build_numba_cuda(kernel: Any, inputs: Any, outs: Any) -> Any:
    return numba_cuda_kernel(kernel.dispatcher, outs, **kernel.launch(inputs, outs))


def _build_numba_cuda_callable(kernel: Any, inputs: Any, outs: Any) -> Any:
    return numba_cuda_callable(kernel.function, outs)


def _build_numba_cuda_replay(kernel: Any, inputs: Any, outs: Any) -> Any:
    return numba_cuda_callable(kernel.function, outs, replay=True)


def _build_cuda_raw(kernel: Any, inputs: Any, outs: Any) -> Any:
    name = kernel.name(str(inputs[0].dtype))
    return cuda_raw_kernel(kernel.source, name, outs, **kernel.launch(inputs, outs))


def _build_pallas(kernel: Any, inputs: Any, outs: Any) -> Any:
    return _pallas_call(kernel, specs(inputs), specs(outs))


@functools.lru_cache(maxsize=1024)
def _pallas_call(kernel: PallasKernel, inputs: Any, outs: Any) -> Any:
    return jax.jit(kernel.make(inputs, outs))


def _build_warp(kernel: Any, inputs: Any, outs: Any) -> Any:
    return _warp_call(kernel, specs(inputs), specs(outs))


@functools.lru_cache(maxsize=1024)
def _warp_call(kernel: WarpKernel | WarpCallable, inputs: Any, outs: Any) -> Any:
    if isinstance(kernel, WarpCallable):
        return jax.jit(kernel.make(inputs, outs))
    options = {"num_outputs": len(outs)} | kernel.options(inputs, outs)
    call = jax_kernel(kernel.kernel(str(inputs[0].dtype)), **options)
    initial = kernel.initial
    if initial is None:
        return call
    # Made inside the program: an initial value that came as an argument would have to be copied.
    return jax.jit(lambda *arrays: call(*arrays, *initial(outs)))


def specs(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes and dtypes of arrays, hashable."""
    return tuple(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays)


@dataclass(frozen=True)
class _Facts:
    """What is known of a backend.

    Attributes:
        id: Its name in test ids and records.
        targets: The JAX platforms it has code for, with the FFI target that a compiled program must show for each call;
            None for XLA's own operations.
        build: Makes a JAX callable of a kernel and the specs of its inputs and outputs.
        missing_dtypes: Dtypes that no kernel of this backend can take, each with the reason.
        missing: Why it can run nowhere on this machine, None if it can.
        has_adjoints: Whether the kernel language generates adjoints.
        typed: Whether the bridge knows what arrays a kernel takes: of CUDA C++ it sees nothing but sizes.
    """

    id: str
    targets: Mapping[str, str | None]
    build: Callable[[Any, Any, Any], Callable[..., Any]]
    missing_dtypes: tuple[tuple[str, str], ...] = ()
    missing: str | None = None
    has_adjoints: bool = False
    typed: bool = True


_XLA: dict[str, str | None] = {"cpu": None, "cuda": None}
_CPU: dict[str, str | None] = {"cpu": "bridge_cpu"}
_CUDA: dict[str, str | None] = {"cuda": "bridge_cuda"}
_CUDA_PYTHON: dict[str, str | None] = {"cuda": "bridge_cuda_python"}

_PALLAS: dict[str, str | None] = {"cuda": None}
_NOT_IN_TRITON = (("float16", "Pallas has no division of float16 on GPUs"),)
_NOT_IN_CPP = (("float16", "needs CUDA's headers, which not every installation of NVRTC finds"),)

_NO_HALF = tuple((name, f"Numba's CPU target has no {name}") for name in ("float16", "bfloat16"))


class Backend(Enum):
    """A backend; the members are in the order in which tables and tests show them.

    A further backend is a member here, and its kernels in the files of the operators.
    """

    JNP = _Facts("jnp", _XLA, _build_jnp)
    NUMBA = _Facts("numba", _CPU, _build_numba, _NO_HALF)
    NUMBA_PARALLEL = _Facts("numba_parallel", _CPU, _build_numba, _NO_HALF)
    NUMBA_CUDA = _Facts("numba_cuda", _CUDA, _build_numba_cuda, (), NO_NUMBA_CUDA)
    NUMBA_CUDA_CALLABLE = _Facts("numba_cuda_callable", _CUDA_PYTHON, _build_numba_cuda_callable, (), NO_NUMBA_CUDA)
    NUMBA_CUDA_REPLAY = _Facts("numba_cuda_replay", _CUDA, _build_numba_cuda_replay, (), NO_NUMBA_CUDA)
    WARP = _Facts("warp", _CPU | _CUDA, _build_warp, has_adjoints=True)
    WARP_TILE = _Facts("warp_tile", _CPU | _CUDA, _build_warp, has_adjoints=True)
    CUDA_RAW = _Facts("cuda_raw", _CUDA, _build_cuda_raw, _NOT_IN_CPP, NO_CUDA_CORE, typed=False)
    PALLAS = _Facts("pallas", _PALLAS, _build_pallas, _NOT_IN_TRITON)

    @property
    def id(self) -> str:
        """The name in test ids and records."""
        return self.value.id

    @property
    def platforms(self) -> tuple[str, ...]:
        """JAX platforms it has code for."""
        return tuple(self.value.targets)

    @property
    def compiled(self) -> bool:
        """Whether its kernels are ours, called by custom calls, rather than XLA's own operations."""
        return any(self.value.targets.values())

    def custom_call(self, platform: str) -> str | None:
        """The FFI target of its calls on a platform; None where a program has no custom call of ours."""
        return self.value.targets.get(platform)

    @property
    def typed(self) -> bool:
        """Whether the bridge knows what arrays its kernels take."""
        return self.value.typed

    @property
    def has_adjoints(self) -> bool:
        """Whether its kernel language generates adjoints, so that its kernels have gradients."""
        return self.value.has_adjoints

    def build(self, kernel: Kernel, outs: Any, inputs: Any = ()) -> Callable[..., Any]:
        """Makes a JAX callable.

        Args:
            kernel: What the operator declares for this backend.
            outs: A ``jax.ShapeDtypeStruct`` per output, in a list.
            inputs: Anything with shape and dtype per input; a launch may depend on them.
        """
        return self.value.build(kernel, inputs, outs)

    def unsupported(self, platform: str, dtype: str) -> str | None:
        """Why no kernel of this backend can run there, or None if one can."""
        if platform not in self.platforms:
            return f"{self.id} runs on {', '.join(self.platforms)}, not on {platform}"
        return dict(self.value.missing_dtypes).get(dtype) or self.value.missing

    def __str__(self) -> str:
        return self.id
