"""Makes every backend of a :class:`bridge.XLACustomKernel` a kernel that can be checked, with its parameters and rules.

A call goes through the operator itself, so its rules for ``jax.vmap``, derivatives and meshes are checked with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from bridge import XLACustomKernel, use_backend
from bridge.operator.operator_call import Dimensions, Parameters
from suites.backends.backend import Backend, register_backend
from suites.errors import OperatorError
from suites.kernels.kernel import AtLeast, Derivative, Kernel
from suites.numerics.arrays import specs

NATIVE = ("numba", "native", "numba_cuda", "warp", "cuda_raw")
"""The backends of an operator whose kernels the bridge calls: a program without a custom call does not run them."""


class CustomKernel(Kernel):
    """A kernel of a :class:`bridge.XLACustomKernel`, for ``kernels`` of an operator.

    Example::

        kernels={"numba": CustomKernel(clip_op, limit=0.5), "warp": CustomKernel(clip_op, limit=0.5)}

    :func:`suites.operator_of` declares all backends of an operator at once.

    Args:
        operator: The operator.
        backend: The backend that runs, or ``"backend:configuration"``; by default the one it is declared for.
        **parameters: The static parameters of each call.

    Raises:
        OperatorError: The first argument is no such operator, the backend is not registered, or a parameter is not
            hashable.
    """

    def __init__(self, operator: Any, backend: str | None = None, **parameters: Any):
        if not isinstance(operator, XLACustomKernel):
            raise OperatorError(
                f"CustomKernel got a {type(operator).__name__}, expected a bridge.XLACustomKernel. Declare other "
                "kernels without it."
            )
        self.operator = operator
        self.backend = backend
        try:
            self.parameters = Parameters(parameters)
        except TypeError as error:
            raise OperatorError(
                f"CustomKernel: the parameters of {operator.name} are {parameters!r}, expected hashable values: they "
                "are compiled into the kernel. Pass numbers, strings or tuples."
            ) from error
        if backend is not None and not self.platforms:
            raise _unregistered(operator, backend)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomKernel) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"CustomKernel({self.operator.name}, {self.backend!r}, {dict(self.parameters.items)!r})"

    @property
    def _key(self) -> Any:
        return id(self.operator), self.backend, self.parameters

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the backend is registered for."""
        registered = self.operator.registered
        return tuple(each for each in registered.kernels if registered.find(each, str(self.backend)) is not None)

    def of(self, names: Sequence[str]) -> CustomKernel:
        """Returns the kernel of the first of these backends that is registered, unless it names a backend itself.

        Raises:
            OperatorError: None of them is.
        """
        if self.backend is not None:
            return self
        registered = {backend for backends in self.operator.registered.kernels.values() for backend in backends}
        name = next((name for name in names if name in registered), None)
        if name is None:
            raise _unregistered(self.operator, names[0])
        return CustomKernel(self.operator, name, **dict(self.parameters.items))

    def build(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Callable[..., Any]:
        """A function that calls the operator on the backend, with its parameters."""
        return _call(self, None if self.operator.outs is not None else specs(outs))

    @property
    def custom_calls(self) -> AtLeast:
        """A kernel in a native language is called at least once; a rule may do without it."""
        rules = self.operator.rules
        replaced = rules.batching is not None or rules.vjp is not None or rules.jvp is not None
        least = 1 if str(self.backend).partition(":")[0] in NATIVE else 0
        return AtLeast(least, 0 if replaced else least)

    @property
    def returns_list(self) -> bool:
        """The function returns one."""
        return True

    @property
    def adds_atomically(self) -> bool:
        """On a GPU the kernels of an operator may add up in any order: they do not say."""
        return True

    @property
    def dimensions(self) -> Dimensions | None:
        """The dimensions that its author declared with ``def_partitioning``; None without it."""
        return self.operator.rules.dimensions

    def derivative(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Derivative:
        """The modes of the operator's rules."""
        rules = self.operator.rules
        if rules.vjp is not None:
            return Derivative(reverse=True)
        if rules.jvp is not None:
            return Derivative(reverse=True, forward=True)
        linear = tuple(operand for operand, _ in rules.transposes)
        return Derivative(reverse=bool(linear), forward=bool(linear), inputs=linear)

    def unsupported(self, platform: str) -> str | None:
        """Says so where the operator has no kernel for the platform."""
        if platform in self.platforms:
            return None
        return f"{self.operator.name} has no kernel {self.backend!r} for {platform}"


def custom_kernel(declared: Any) -> CustomKernel | None:
    """Returns an author's declaration as a :class:`CustomKernel`; None if it is none.

    Args:
        declared: A ``CustomKernel``, the operator itself, or a ``functools.partial`` of it with parameters.
    """
    if isinstance(declared, CustomKernel):
        return declared
    if isinstance(declared, XLACustomKernel):
        return CustomKernel(declared)
    if isinstance(declared, functools.partial) and isinstance(declared.func, XLACustomKernel):
        parameters = dict(declared.keywords)
        if declared.args or "outs" in parameters:
            raise OperatorError(
                f"a functools.partial of the operator {declared.func.name} fixes "
                f"{'arrays' if declared.args else 'outs'}, expected only parameters. Leave that out: checks pass their "
                "own."
            )
        return CustomKernel(declared.func, parameters.pop("backend", None), **parameters)
    return None


@functools.lru_cache(maxsize=1024)
def _call(kernel: CustomKernel, outs: tuple[jax.ShapeDtypeStruct, ...] | None) -> Callable[..., list[Any]]:
    operator, backend = kernel.operator, str(kernel.backend)
    keywords: Mapping[str, Any] = {**dict(kernel.parameters.items), "outs": None if outs is None else list(outs)}

    def call(*arrays: Any) -> list[Any]:
        # Rules that call the operator run this backend too; operators inside may lack it.
        with use_backend(backend, "default"):
            return jax.tree.leaves(operator(*arrays, backend=backend, **keywords))

    call.__name__ = operator.name
    return call


def _unregistered(operator: XLACustomKernel, backend: str) -> OperatorError:
    return OperatorError(
        f"the operator {operator.name} has no backend {backend!r} (registered: {operator.registered.describe()}). "
        "Register it with a def_..._kernel method, or name another backend."
    )


_own: dict[str, Backend] = {}
"""The backends that :func:`column` registered, by id."""


def column(id_: str) -> Backend:
    """Returns the backend, a column of tables, for kernels that no built-in backend stands for; registers a new one.

    Args:
        id_: Lower case letters, digits and ``_``, such as ``numba_blocked``.
    """
    if id_ not in _own:
        backend = Backend(
            id=id_,
            targets={"cpu": "bridge_cpu", "cuda": "bridge_cuda"},
            accept=custom_kernel,
            expected="a bridge.XLACustomKernel, or a suites.CustomKernel of one",
            cure="Declare other kernels in their own backend.",
        )
        register_backend(backend)
        _own[id_] = backend
    return _own[id_]
