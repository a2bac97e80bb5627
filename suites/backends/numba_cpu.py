"""Makes the kernels of the backends ``numba`` and ``numba_parallel``: Numba on one CPU thread, and on several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numba.core.registry import CPUDispatcher
from numba.np.numpy_support import as_dtype

from bridge import numba_kernel
from bridge.kernel.arguments import check_aliases
from suites.kernels.kernel import DeclaredDtypes, Kernel
from suites.kernels.numba_cpu.copies import with_options
from suites.kernels.wrapped import arguments_of, outs_function


@dataclass(frozen=True)
class NumbaKernel(Kernel):
    """A Numba kernel for the CPU with the options of :func:`bridge.numba_kernel`.

    Attributes:
        dispatcher: A function decorated with ``numba.njit`` that takes the inputs, then the outputs.
        input_output_aliases: Pairs of input and output index that share a buffer: the kernel updates such an input in
            place. Callers see no change of it.
        vmap_method: How ``jax.vmap`` runs the kernel.
        outs: A function of the inputs that returns shape and dtype of the results. By default the operator's outputs.
    """

    dispatcher: Any
    input_output_aliases: Any = ()
    vmap_method: str | None = None
    outs: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        pairs = self.input_output_aliases or {}
        aliases = check_aliases(dict(pairs) if isinstance(pairs, tuple) else pairs, "NumbaKernel")
        object.__setattr__(self, "input_output_aliases", aliases)

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.numba_kernel`."""
        aliases = dict(self.input_output_aliases) or None
        declared = self.outs or outs
        return numba_kernel(self.dispatcher, declared, vmap_method=self.vmap_method, input_output_aliases=aliases)

    @property
    def returns_list(self) -> bool:
        """It does for the operator's outputs, which are a list."""
        return self.outs is None

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """The declared ones."""
        return dict(self.input_output_aliases)

    def with_bounds_checks(self) -> NumbaKernel:
        """The same kernel, and the functions that it calls, with ``boundscheck=True``."""
        return replace(self, dispatcher=with_options(self.dispatcher, boundscheck=True))

    @property
    def parallel(self) -> bool:
        """Whether the kernel is decorated with ``parallel=True``."""
        return bool(self.dispatcher.targetoptions.get("parallel"))

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes of its explicit signatures; None if Numba compiles it for any arguments."""
        if self.dispatcher._can_compile:
            return None
        return [tuple(map(_dtype, signature.args)) for signature in self.dispatcher.nopython_signatures]


def _dtype(numba_type: Any) -> str | None:
    """The dtype of a Numba type; None if it is no array, or an array of a type that NumPy does not have."""
    try:
        return str(as_dtype(numba_type.dtype).name)
    except (AttributeError, NotImplementedError):
        return None


def accept(kernel: Any) -> Kernel | None:
    """Returns a function of ``numba.njit``, or a wrapper of one, as a kernel."""
    if isinstance(kernel, NumbaKernel):
        return kernel if isinstance(kernel.dispatcher, CPUDispatcher) else None
    wrapped = arguments_of(kernel, numba_kernel)
    if wrapped is not None:
        wrapped["outs"] = outs_function(wrapped["outs"])
        return NumbaKernel(wrapped.pop("kernel"), **wrapped)
    return NumbaKernel(kernel) if isinstance(kernel, CPUDispatcher) else None
