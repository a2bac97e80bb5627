"""Defines the kernels of the backends ``numba_cuda``, ``numba_cuda_callable`` and ``numba_cuda_replay``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from bridge import numba_cuda_callable, numba_cuda_kernel
from bridge.kernel.arguments import check_aliases
from suites.kernels.atomic_operations import has_atomics
from suites.kernels.kernel import Kernel
from suites.kernels.numba_cuda.blocks import MISSING
from suites.kernels.wrapped import ThreadPerElement, arguments_of, launch_of, outs_function


@dataclass(frozen=True)
class CudaKernel(Kernel):
    """A Numba-CUDA kernel and how it is launched.

    Attributes:
        dispatcher: The kernel, decorated with ``numba.cuda.jit``.
        launch: Takes the inputs and outputs of a call (anything with shape and dtype). Returns the launch arguments of
            :func:`bridge.numba_cuda_kernel`: besides the launch also ``shared_mem``, ``input_output_aliases`` and
            ``vmap_method``.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits. None, the
            default, looks for such operations in the source.
        outs: A function of the inputs that returns shape and dtype of the results. By default the operator's outputs.
        select: Takes the inputs and outputs of a call. Returns the kernel for their shapes, where ``dispatcher`` is not
            the best one for all.
    """

    dispatcher: Any
    launch: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]]
    atomic: bool | None = None
    outs: Callable[..., Any] | None = None
    select: Callable[[Sequence[Any], Sequence[Any]], Any] | None = None

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.numba_cuda_kernel`."""
        return numba_cuda_kernel(self.kernel_of(inputs, outs), self.outs or outs, **self.launch(inputs, outs))

    def kernel_of(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Any:
        """The kernel that runs for the shapes of a call."""
        return self.dispatcher if self.select is None else self.select(inputs, outs)

    @property
    def adds_atomically(self) -> bool:
        """Whether the author declares atomic operations, or the source has some."""
        return has_atomics(self.dispatcher) if self.atomic is None else self.atomic

    @property
    def returns_list(self) -> bool:
        """It does for the operator's outputs, which are a list."""
        return self.outs is None

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """Those among the launch arguments."""
        return self.launch(inputs, outs).get("input_output_aliases") or {}


@dataclass(frozen=True)
class CudaCallable(Kernel):
    """A Python function that launches several Numba-CUDA kernels.

    Attributes:
        function: The function, as :func:`bridge.numba_cuda_callable` takes it. Its launches depend only on shapes and
            dtypes, so that they can be replayed.
        replay: Whether its launches are recorded once and then replayed without Python. The backend sets it.
        input_output_aliases: Pairs of input and output index that share a buffer.
        vmap_method: How ``jax.vmap`` runs the function.
        outs: A function of the inputs that returns shape and dtype of the results. By default the operator's outputs.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits. None, the
            default, looks for such operations in the source.
    """

    function: Callable[..., None]
    replay: bool = False
    input_output_aliases: Any = ()
    vmap_method: str | None = None
    outs: Callable[..., Any] | None = None
    atomic: bool | None = None

    def __post_init__(self) -> None:
        pairs = self.input_output_aliases or {}
        aliases = check_aliases(dict(pairs) if isinstance(pairs, tuple) else pairs, "CudaCallable")
        object.__setattr__(self, "input_output_aliases", aliases)

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.numba_cuda_callable`."""
        return numba_cuda_callable(
            self.function,
            self.outs or outs,
            replay=self.replay,
            vmap_method=self.vmap_method,
            input_output_aliases=dict(self.input_output_aliases) or None,
        )

    @property
    def adds_atomically(self) -> bool:
        """Whether the author declares atomic operations, or the source has some."""
        return has_atomics(self.function) if self.atomic is None else self.atomic

    @property
    def returns_list(self) -> bool:
        """It does for the operator's outputs, which are a list."""
        return self.outs is None

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """The declared ones."""
        return dict(self.input_output_aliases)


def accept_kernel(declared: Any) -> Kernel | None:
    """Returns a kernel of ``numba_cuda``; None if it is none."""
    if isinstance(declared, CudaKernel):
        return declared if _is_kernel(declared.dispatcher) and callable(declared.launch) else None
    wrapped = arguments_of(declared, numba_cuda_kernel)
    if wrapped is not None:
        launch = launch_of("numba_cuda_kernel", wrapped, "CudaKernel(kernel, launch)")
        return CudaKernel(wrapped["kernel"], launch, outs=outs_function(wrapped["outs"]))
    return CudaKernel(declared, ThreadPerElement()) if _is_kernel(declared) else None


def _is_kernel(given: Any) -> bool:
    if isinstance(given, FunctionType):  # without numba-cuda, the decorator `kernel` returns the function itself
        return MISSING is not None
    is_device_function = (getattr(given, "targetoptions", None) or {}).get("device") or getattr(given, "_device", 0)
    is_made = type(given).__module__.startswith(("numba.cuda", "numba_cuda_mlir."))
    return is_made and callable(given) and not is_device_function


def accept_callable(given: Any) -> CudaCallable | None:
    """Returns a kernel of ``numba_cuda_callable``; None if it is none."""
    if isinstance(given, CudaCallable):
        return replace(given, replay=False) if isinstance(given.function, FunctionType) else None
    wrapped = arguments_of(given, numba_cuda_callable)
    if wrapped is not None:
        wrapped.pop("replay", None)  # the backend says whether launches are replayed
        wrapped["outs"] = outs_function(wrapped["outs"])
        return CudaCallable(wrapped.pop("func"), **wrapped)
    return CudaCallable(given) if isinstance(given, FunctionType) else None


def accept_replayed(given: Any) -> CudaCallable | None:
    """Returns a kernel of ``numba_cuda_replay``; None if it is none."""
    accepted = accept_callable(given)
    return None if accepted is None else replace(accepted, replay=True)
