"""The backends an operator can be implemented in, and how each makes a JAX callable of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bridge import numba_cuda_callable, numba_cuda_kernel, numba_kernel
from suites.cuda_kernels import MISSING as NO_NUMBA_CUDA


@dataclass(frozen=True)
class CudaKernel:
    """A Numba-CUDA kernel and how it is launched.

    Attributes:
        dispatcher: What :func:`suites.cuda_kernels.kernel` made of the kernel.
        launch: From the inputs and outputs of a call (anything with shape and dtype) to the launch arguments of
            :func:`bridge.numba_cuda_kernel`.
    """

    dispatcher: Any
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]


@dataclass(frozen=True)
class CudaCallable:
    """A Python function that launches several Numba-CUDA kernels, as :func:`bridge.numba_cuda_callable` takes it.

    Its launches depend on shapes and dtypes alone, so that they can be replayed.
    """

    function: Callable[..., None]


Kernel = Callable[..., Any] | CudaKernel | CudaCallable
"""What an operator declares for a backend: a function of JAX arrays for ``jnp``, a dispatcher for Numba."""


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


@dataclass(frozen=True)
class _Facts:
    """What is known of a backend.

    Attributes:
        id: Its name in test ids and records.
        platforms: JAX platforms it has code for.
        custom_call: The FFI target that a compiled program must show once per call, None for XLA's own operations.
        build: Makes a JAX callable of a kernel and the specs of its inputs and outputs.
        missing_dtypes: Dtypes that no kernel of this backend can take, each with the reason.
        missing: Why it can run nowhere on this machine, None if it can.
        optional: Whether it makes sense for some operators only; others then have no cell, rather than a skipped one.
    """

    id: str
    platforms: tuple[str, ...]
    custom_call: str | None
    build: Callable[[Any, Any, Any], Callable[..., Any]]
    missing_dtypes: tuple[tuple[str, str], ...] = ()
    missing: str | None = None
    optional: bool = False


_NO_HALF = tuple((name, f"Numba's CPU target has no {name}") for name in ("float16", "bfloat16"))


class Backend(Enum):
    """A backend; the members are in the order in which tables and tests show them.

    A further backend is a member here, and its kernels in the files of the operators.
    """

    JNP = _Facts("jnp", ("cpu", "cuda"), None, _build_jnp)
    NUMBA = _Facts("numba", ("cpu",), "bridge_cpu", _build_numba, _NO_HALF)
    NUMBA_PARALLEL = _Facts("numba_parallel", ("cpu",), "bridge_cpu", _build_numba, _NO_HALF)
    NUMBA_CUDA = _Facts("numba_cuda", ("cuda",), "bridge_cuda", _build_numba_cuda, (), NO_NUMBA_CUDA, True)
    NUMBA_CUDA_CALLABLE = _Facts(
        "numba_cuda_callable", ("cuda",), "bridge_cuda_python", _build_numba_cuda_callable, (), NO_NUMBA_CUDA, True
    )
    NUMBA_CUDA_REPLAY = _Facts(
        "numba_cuda_replay", ("cuda",), "bridge_cuda", _build_numba_cuda_replay, (), NO_NUMBA_CUDA, True
    )

    @property
    def id(self) -> str:
        """The name in test ids and records."""
        return self.value.id

    @property
    def platforms(self) -> tuple[str, ...]:
        """JAX platforms it has code for."""
        return self.value.platforms

    @property
    def custom_call(self) -> str | None:
        """The FFI target of its calls; None where a program has no custom call of ours."""
        return self.value.custom_call

    @property
    def optional(self) -> bool:
        """Whether it makes sense for some operators only."""
        return self.value.optional

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
