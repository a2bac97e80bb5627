"""An operator with several kernels: :class:`XLACustomKernel`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax

from bridge.errors import ParameterError, SignatureError
from bridge.primitive.derivatives import apply
from bridge.primitive.dispatch import choose
from bridge.primitive.operator import OperatorCall
from bridge.primitive.preference import preferred_backends
from bridge.primitive.registry import (
    INTERPRETED,
    ONE_THREAD,
    PLATFORMS,
    REFERENCE,
    Generator,
    Registry,
    canonical_platform,
)
from bridge.primitive.rules import Dimensions, Rule
from bridge.signature import Outputs


class XLACustomKernel:
    """One logical operation, one kernel for each backend, called like any JAX function.

    A kernel is registered as a *generator*: a function that receives the keyword parameters of the call, and ``outs``
    as a tuple of ``jax.ShapeDtypeStruct``, and returns a function of the input arrays. That function returns one array,
    or a tuple or list of them; usually it calls :func:`bridge.numba_kernel`, but it may be any JAX code.

    JAX decides on which platform a computation runs; the default backend of that platform then runs it, or the one that
    the call names. A kernel registered or a default changed later takes effect at the next call; programs that the
    caller has compiled stay as they are. Operators of the same name are independent.

    Example::

        scale_op = XLACustomKernel("scale")

        def generator(outs, factor, **_):
            @numba.njit
            def scale(x, out):
                for i in range(out.size):
                    out[i] = factor * x[i]
            return numba_kernel(scale, outs[0])

        scale_op.def_numba_kernel(generator)
        y = scale_op(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype), factor=3.0)

    Under ``jax.vmap`` the selected kernel runs the batch; :meth:`def_batching` declares another way. Derivatives are
    declared with :meth:`def_vjp`, :meth:`def_jvp` or :meth:`def_transpose`. Under ``shard_map`` each device runs the
    kernel on its part; :meth:`def_partitioning` declares what plain ``jax.jit`` may split.

    Args:
        name: Names the operator in errors and in jaxprs.
        outs: What ``outs`` of a call is, if it is not passed: a function of the arrays (of anything with shape and
            dtype) and of the keyword parameters.
        has_side_effect: Run a call even if nothing uses its results. The kernel's own call must say so too.
    """

    def __init__(self, name: str, outs: Callable[..., Any] | None = None, has_side_effect: bool = False):
        if not isinstance(name, str) or not name:
            raise TypeError(f"XLACustomKernel got the name {name!r}, expected a non-empty string.")
        if outs is not None and not callable(outs):
            raise TypeError(f"{name}: outs is {outs!r}, expected a function of the arrays and keyword parameters.")
        self.name = name
        self._outs = outs
        self._has_side_effect = has_side_effect
        self._registry = Registry(name)

    def __repr__(self) -> str:
        return f"XLACustomKernel({self.name!r}, {self._registry.snapshot.describe()})"

    @property
    def _kernels(self) -> dict[str, dict[str, Generator]]:
        """The registered generators by platform and backend; a copy."""
        return {platform: dict(backends) for platform, backends in self._registry.snapshot.kernels.items()}

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform; a copy. Change it with :meth:`set_default`."""
        return dict(self._registry.snapshot.defaults)

    def def_kernel(self, backend: str, platform: str, generator: Generator, asdefault: bool = False) -> None:
        """Registers a kernel, or replaces the one of this backend and platform.

        Args:
            backend: Any name; what ``backend=`` of a call refers to.
            platform: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
            generator: See the class.
            asdefault: Make it the platform's default; the first kernel of a platform is the default anyway.

        Raises:
            BackendError: The platform is unknown.
            TypeError: The generator is not callable.
        """
        self._registry.register(backend, platform, generator, asdefault)

    def def_numba_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"numba"`` for ``"cpu"``, see :meth:`def_kernel`."""
        self.def_kernel("numba", "cpu", generator, asdefault)

    def def_numba_cuda_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"numba_cuda"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self.def_kernel("numba_cuda", "cuda", generator, asdefault)

    def def_warp_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"warp"`` for ``"cuda"`` and for ``"cpu"``, see :meth:`def_kernel`.

        On the CPU, where Warp runs on one thread, it is the default only until another kernel language is registered
        there, unless ``asdefault`` is True.
        """
        self.def_kernel("warp", "cuda", generator, asdefault)
        self._registry.register("warp", "cpu", generator, asdefault, ONE_THREAD)

    def def_pallas_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"pallas"`` for ``"cuda"`` and ``"tpu"``, and interpreted for ``"cpu"``.

        Args:
            generator: See the class; its function calls ``jax.experimental.pallas.pallas_call``. If the generator takes
                a parameter ``interpret``, it is True for the CPU, where Pallas cannot compile, and False elsewhere.
            asdefault: Make it the default of all three platforms. Interpreted, it is otherwise the last choice.
        """
        for platform in PLATFORMS:
            interpreted = platform == "cpu"
            self._registry.register(
                "pallas",
                platform,
                functools.partial(generator, interpret=interpreted) if _takes(generator, "interpret") else generator,
                asdefault,
                *([INTERPRETED] if interpreted else []),
            )

    def def_triton_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"triton"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self.def_kernel("triton", "cuda", generator, asdefault)

    def def_jnp_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"jnp"``, plain JAX code, for every platform.

        It is the reference that other backends are compared with, and the default where there is none but interpreted
        ones.
        """
        for platform in PLATFORMS:
            self._registry.register("jnp", platform, generator, asdefault, REFERENCE)

    def available_backends(self, platform: str) -> tuple[str, ...]:
        """The backends registered for a platform, in order of registration.

        Raises:
            BackendError: The platform is unknown.
        """
        return tuple(self._registry.snapshot.kernels.get(canonical_platform(platform, self.name), {}))

    def def_batching(self, rule: Rule) -> None:
        """Declares what ``jax.vmap`` does, instead of running the selected kernel on the batch.

        Args:
            rule: ``rule(extent, is_batched, *args, outs, **parameters)``, as for ``jax.custom_batching.custom_vmap``:
                the extent of the batch, which arguments have it (as their first axis), and the arguments; ``outs`` are
                those of one element. Returns results that all have the batch as their first axis. It may call the
                operator.
        """
        self._declare("batching", rule, lambda rules: replace(rules, batching=rule))

    def def_vjp(self, forward: Rule, backward: Rule) -> None:
        """Declares the derivative for reverse mode; replaces one of forward mode.

        Args:
            forward: ``forward(*args, outs, **parameters)`` returns the results and what the backward rule needs. It may
                call the operator.
            backward: ``backward(residuals, cotangents, outs, **parameters)`` returns a gradient for each argument.
                ``cotangents`` is a list; in it, and for arguments, None stands for integers and booleans.
        """
        self._declare("forward rule", forward, lambda rules: replace(rules, vjp=(forward, backward), jvp=None))
        self._declare("backward rule", backward, lambda rules: rules)

    def def_jvp(self, rule: Rule) -> None:
        """Declares the derivative for forward mode, from which JAX derives reverse mode; replaces one of reverse mode.

        Args:
            rule: ``rule(primals, tangents, outs, **parameters)`` returns the results and their tangents, both lists.
                The tangents are a linear function of the given ones; None stands for integers and booleans.
        """
        self._declare("rule", rule, lambda rules: replace(rules, jvp=rule, vjp=None))

    def def_transpose(self, operand: int, rule: Rule) -> None:
        """Declares the operator linear in an operand, which makes it differentiable in both modes.

        Args:
            operand: Index of the argument.
            rule: ``rule(cotangents, *others, outs, **parameters)``: a list of cotangents, and the other arguments in
                order. Returns the cotangent of the operand.
        """
        if isinstance(operand, bool) or not isinstance(operand, int) or operand < 0:
            raise TypeError(f"{self.name}: operand is {operand!r}, expected the index of an argument.")
        self._declare(
            "transpose rule",
            rule,
            lambda rules: replace(
                rules, transposes=tuple(sorted({**dict(rules.transposes), operand: rule}.items(), key=lambda p: p[0]))
            ),
        )

    def def_partitioning(self, dimensions: str, split: Iterable[str]) -> None:
        """Declares which dimensions plain ``jax.jit`` may keep split over devices, so that each runs a part.

        For what this cannot say, wrap the call in ``jax.experimental.custom_partitioning`` or ``shard_map``.

        Args:
            dimensions: Names of the dimensions of each argument and result, as ``"b i, i -> b"``. Equal names mean
                equal extents.
            split: Names of those that the operator treats element by element: a call on a part of them gives that
                part of each result. All others are gathered.

        Raises:
            ValueError: The notation is malformed, or a dimension to split is not one of every result.
        """
        parsed = Dimensions.parse(dimensions, frozenset(split), self.name)
        self._registry.declare(lambda rules: replace(rules, dimensions=parsed))

    def _declare(self, what: str, rule: Rule, change: Callable[[Any], Any]) -> None:
        if not callable(rule):
            raise TypeError(f"{self.name}: the {what} is {rule!r}, expected a function.")
        self._registry.declare(change)

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend the default of a platform, from the next call on.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        self._registry.set_default(platform, backend)

    def __call__(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Any:
        """Runs the operator.

        Args:
            *args: Arrays, of any shape and dtype that the kernels accept.
            outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. May be left
                out if the operator has a function for it.
            backend: The backend to run; by default the one preferred by :func:`bridge.use_backend`, or else the default
                of the platform.
            **parameters: Static values for the generator; hashable.

        Returns:
            Arrays in the structure of ``outs``.

        Raises:
            BackendError: No kernel is registered for the request, or (when lowered) for the platform.
            ParameterError: A parameter is a traced value, an array, or not hashable.
            SignatureError: ``outs`` is malformed or (when lowered) not what the kernel returns; or an argument is a
                container of arrays.
        """
        for index, arg in enumerate(args):
            if not jax.tree_util.all_leaves([arg]):
                raise SignatureError(
                    f"{self.name}: argument {index} is a {type(arg).__name__}, expected an array. "
                    "Pass each array as an argument of its own."
                )
        static = self._static(parameters)
        outputs = Outputs.of(self._declared(args, parameters) if outs is None else outs, self.name)
        outputs.check_precision(self.name)
        snapshot = self._registry.snapshot
        choice = choose(snapshot, preferred_backends() if backend is None else (backend,), self.name)
        call = OperatorCall(self.name, choice, outputs.specs, static, snapshot.rules, self._has_side_effect)
        return outputs.unflatten(apply(call, *args))

    def _declared(self, args: Iterable[Any], parameters: Mapping[str, Any]) -> Any:
        if self._outs is None:
            raise SignatureError(
                f"{self.name}: outs is missing. Pass the shapes and dtypes of the results, or construct the operator "
                "with outs, a function of its arguments."
            )
        return self._outs(*map(jax.typeof, args), **parameters)

    def _static(self, parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        for key, value in parameters.items():
            if isinstance(value, jax.core.Tracer):
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is a traced value ({jax.typeof(value)}), but parameters are "
                    f"compiled into the kernel. Mark it static in the surrounding jax.jit (static_argnames={key!r}), "
                    "or pass it to the kernel as an array argument."
                )
            try:
                hash(value)
            except TypeError as error:
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is {value!r} of type {type(value).__name__}, which is not "
                    "hashable, but parameters are compiled into the kernel. Pass a number, string or tuple; pass "
                    "arrays as arguments."
                ) from error
        return tuple(sorted(parameters.items()))


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function takes a keyword argument of this name."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
