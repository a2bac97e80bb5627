"""Makes kernels of C functions: ``native`` runs them on the CPU, ``native_cuda`` gives them XLA's stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge import native_kernel
from suites.kernels.kernel import Kernel
from suites.kernels.wrapped import arguments_of, outs_function


@dataclass(frozen=True)
class NativeKernel(Kernel):
    """A C function, as :func:`bridge.native_kernel` takes it.

    Attributes:
        function: The C function.
        arguments: Returns the arguments of a call.
        outs: A function of the inputs that returns shape and dtype of the results; None for the operator's outputs.
        options: The other options of :func:`bridge.native_kernel`.
    """

    function: Any
    arguments: Callable[..., Any]
    outs: Callable[..., Any] | None
    options: Mapping[str, Any]

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.native_kernel`."""
        return native_kernel(self.function, self.outs or outs, self.arguments, **self.options)

    @property
    def returns_list(self) -> bool:
        """It does for the operator's outputs, which are a list."""
        return self.outs is None

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """The declared ones."""
        return self.options.get("input_output_aliases") or {}


def _accept(declared: Any, platform: str) -> Kernel | None:
    if isinstance(declared, NativeKernel):
        return declared if declared.options.get("platform", "cpu") == platform else None
    arguments = arguments_of(declared, native_kernel)
    if arguments is None or arguments.get("platform", "cpu") != platform or arguments.get("capturable"):
        return None
    return NativeKernel(
        arguments.pop("function"), arguments.pop("arguments"), outs_function(arguments.pop("outs")), arguments
    )


def accept_cpu(declared: Any) -> Kernel | None:
    """Returns a wrapper of a C function that runs on the CPU as a kernel."""
    return _accept(declared, "cpu")


def accept_cuda(declared: Any) -> Kernel | None:
    """Returns a wrapper of a C function that gets XLA's stream as a kernel."""
    return _accept(declared, "cuda")
