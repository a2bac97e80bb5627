"""Defines the kernels of the backends ``warp`` and ``warp_tile``: NVIDIA Warp, where blocks may work on tiles."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from bridge import jax_kernel
from bridge.languages.warp.generated import has_adjoint
from suites.errors import OperatorError
from suites.kernels.atomic_operations import has_atomics
from suites.kernels.function_kernel import FunctionKernel
from suites.kernels.kernel import DeclaredDtypes, Derivative, Kernel, Same
from suites.kernels.warp.blocks import wp
from suites.kernels.wrapped import arguments_of
from suites.numerics.arrays import specs


@dataclass(frozen=True)
class WarpKernel(Kernel):
    """A Warp kernel and how it is called; it runs on the CPU and on CUDA.

    Attributes:
        kernel: Takes the name of the first input's dtype and returns the ``warp.Kernel``: the same object each time.
            A ``warp.Kernel`` by itself serves all dtypes.
        options: Takes the inputs and outputs of a call (anything with shape and dtype). Returns the options of
            :func:`bridge.jax_kernel`. Or options that serve all calls, such as ``{"in_out_argnames": ["state"]}``;
            without launch dimensions among them, a ``warp.Kernel`` runs a thread for each element of the first output.
        initial: Takes the outputs and returns the initial values of those that the kernel accumulates into
            (``in_out_argnames``). In the kernel these arguments follow the inputs.
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits. None, the
            default, looks for such operations in the source.
    """

    kernel: Callable[[str], Any]
    options: Callable[[Sequence[Any], Sequence[Any]], dict[str, Any]] | Mapping[str, Any] = lambda inputs, outs: {}
    initial: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    atomic: bool | None = None

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """The callable of :func:`bridge.jax_kernel`, in a function that makes the initial values if there are any."""
        return _kernel_call(self, specs(inputs), specs(outs))

    @property
    def adds_atomically(self) -> bool:
        """Whether the author declares atomic operations, or the source has some."""
        return has_atomics(_inside(self.kernel), warp=True) if self.atomic is None else self.atomic

    @property
    def returns_list(self) -> bool:
        """Warp's callables return one."""
        return True

    def aliases(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Mapping[int, int]:
        """The in/out arguments, which come first among the outputs; none if the kernel makes their initial values."""
        names = list(self.options_of(inputs, outs).get("in_out_argnames") or ())
        if self.initial is not None or not names:
            return {}
        labels = [each.label for each in self._of(inputs).adj.args]
        return {index: place for place, index in enumerate(sorted(map(labels.index, names)))}

    def derivative(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Derivative | None:
        """Reverse mode, if Warp generates an adjoint that the options do not switch off."""
        options = self.options_of(inputs, outs)
        switched_off = options.get("enable_backward") is False or options.get("has_side_effect")
        kernel = self._of(inputs)
        return Derivative(reverse=not switched_off and has_adjoint(kernel), generated=not _has_own_adjoint(kernel.adj))

    def options_of(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        """The options of :func:`bridge.jax_kernel` for a call; by default outputs have the operator's shapes."""
        options = dict(self.options) if isinstance(self.options, Mapping) else dict(self.options(inputs, outs))
        if "launch_dims" in options and "output_dims" not in options:
            shapes = _output_shapes(self._of(inputs))(inputs, outs, options.get("in_out_argnames") or ())
            options |= {name: dims for name, dims in shapes.items() if name == "output_dims"}
        return options

    def _of(self, inputs: Sequence[Any]) -> Any:
        return self.kernel(str(inputs[0].dtype))

    def declared_dtypes(self) -> DeclaredDtypes | None:
        """The dtypes of its annotations, if it is one kernel for all dtypes."""
        if not isinstance(self.kernel, Same):
            return None
        return [tuple(_dtype(argument.type) for argument in self.kernel.value.adj.args)]


def _inside(kernel: Any) -> Any:
    """The kernel that serves all dtypes, or the function that makes one for a dtype."""
    return kernel.value if isinstance(kernel, Same) else kernel


@functools.lru_cache(maxsize=1024)
def _kernel_call(kernel: WarpKernel, inputs: Any, outs: Any) -> Callable[..., Any]:
    options = {"num_outputs": len(outs)} | kernel.options_of(inputs, outs)
    call = jax_kernel(kernel.kernel(str(inputs[0].dtype)), **options)
    initial = kernel.initial
    if initial is None:
        return call
    # Made inside the program: an initial value that came as an argument would have to be copied.
    return jax.jit(lambda *arrays: call(*arrays, *initial(outs)))


@dataclass(frozen=True)
class WarpCallable(FunctionKernel):
    """A JAX function that calls Warp kernels: a :class:`suites.FunctionKernel`.

    Attributes:
        atomic: Whether atomic operations add floats up. On a GPU their order varies, and so do the last bits. None, the
            default, looks for such operations in the source.
    """

    atomic: bool | None = None

    @property
    def adds_atomically(self) -> bool:
        """Whether the author declares atomic operations, or the source has some."""
        return has_atomics(self.make, warp=True) if self.atomic is None else self.atomic


def _has_own_adjoint(adjoint: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a kernel calls a function with an adjoint by its author: ``warp.func_grad``, or a native one."""
    if id(adjoint) in seen:
        return False
    functions = adjoint.get_references()[2]
    return any(
        getattr(each, "custom_grad_func", None) is not None
        or getattr(each, "adj_native_snippet", None) is not None
        or (getattr(each, "adj", None) is not None and _has_own_adjoint(each.adj, seen | {id(adjoint)}))
        for each in functions
    )


def accept(declared: Any) -> Kernel | None:
    """Returns a kernel of ``warp``; None if it is none."""
    if isinstance(declared, WarpCallable):
        return declared
    if isinstance(declared, WarpKernel):
        if isinstance(declared.options, Mapping):
            own = declared.kernel if isinstance(declared.kernel, wp.Kernel) else None
            declared = replace(declared, options=_Fixed(tuple(declared.options.items()), own and _output_shapes(own)))
        if isinstance(declared.kernel, wp.Kernel):
            kernel: WarpKernel = replace(declared, kernel=Same(declared.kernel))
            return kernel
        return declared if callable(declared.kernel) else None
    wrapped = arguments_of(declared, jax_kernel)
    if wrapped is not None:
        return _of_wrapper(wrapped)
    return WarpKernel(Same(declared), _output_shapes(declared)) if isinstance(declared, wp.Kernel) else None


def _of_wrapper(arguments: dict[str, Any]) -> WarpKernel:
    """The kernel of a wrapper that :func:`bridge.jax_kernel` made, with the options of the wrapper and no others."""
    fixed = [name for name in ("launch_dims", "output_dims") if arguments.get(name) is not None]
    if fixed:
        raise OperatorError(
            f"the kernel {arguments['kernel'].key} is wrapped by jax_kernel with "
            f"{', '.join(f'{name}={arguments[name]!r}' for name in fixed)}, which does not say how the sizes of the "
            "checks are launched. Declare suites.WarpKernel(kernel, options), with a function of inputs and outputs "
            "that returns these options."
        )
    kernel = arguments.pop("kernel")
    return WarpKernel(Same(kernel), _Fixed(tuple({"num_outputs": 1, **arguments}.items()), None))


def accept_tile(given: Any) -> Kernel | None:
    """Returns a kernel of ``warp_tile``; None for a bare kernel, which does not say how its blocks are launched."""
    return None if isinstance(given, wp.Kernel) else accept(given)


def _inner_rank(given: Any) -> int:
    """Dimensions of an element of a Warp array: 1 for a vector, 2 for a matrix. They come last in the JAX array."""
    return len(getattr(getattr(given, "dtype", None), "_shape_", ()))


def _dtype(given: Any) -> str | None:
    """The dtype of a Warp array, also of vectors or matrices; None if the array is generic."""
    element = getattr(given, "dtype", None)
    name = getattr(getattr(element, "_wp_scalar_type_", element), "__name__", "")
    return name if re.fullmatch(r"bool|u?int\d+|float\d+", name) else None


def _output_shapes(kernel: Any) -> _OutputShapes:
    return _OutputShapes(tuple((each.label, _inner_rank(each.type)) for each in kernel.adj.args))


@dataclass(frozen=True, eq=False)
class _Fixed:
    """Returns options that serve all calls, and launch dimensions if they have none.

    Attributes:
        options: The options, as pairs.
        launch: Makes the launch dimensions; None if :func:`bridge.jax_kernel` takes its own.
    """

    options: tuple[tuple[str, Any], ...]
    launch: _OutputShapes | None

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        options = dict(self.options)
        if self.launch is None or "launch_dims" in options:
            return options
        return {**self.launch(inputs, outs, options.get("in_out_argnames") or ()), **options}


@dataclass(frozen=True)
class _OutputShapes:
    """Makes the options of a bare kernel: a thread for each element of the first output.

    Attributes:
        parameters: Name, and dimensions of an element, of each parameter of the kernel.
    """

    parameters: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Sequence[Any], outs: Sequence[Any], in_out: Sequence[str] = ()) -> dict[str, Any]:
        pure = outs[len(in_out) :]
        if len(self.parameters) != len(inputs) + len(pure):
            return {}  # jax_kernel says how many it expects
        ranks = dict(self.parameters)
        first = next((name for name, _ in self.parameters if name in in_out), None)
        named = zip(self.parameters[len(inputs) :], pure, strict=True)
        shapes = {name: self._threads(out, rank) for (name, rank), out in named}
        launch = next(iter(shapes.values())) if first is None else self._threads(outs[0], ranks[first])
        return {"launch_dims": launch, "output_dims": shapes} if shapes else {"launch_dims": launch}

    def _threads(self, out: Any, rank: int) -> tuple[int, ...]:
        return tuple(out.shape[: len(out.shape) - rank]) or (1,)
