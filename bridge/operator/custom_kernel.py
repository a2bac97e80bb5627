"""An operator with several kernels: :class:`XLACustomKernel`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from bridge.debug.mode import in_current_mode
from bridge.errors import BackendError, ParameterError, SignatureError
from bridge.languages.extras import require_warp
from bridge.operator.choice.candidates import NO_WINNERS, Choice, candidate, choose
from bridge.operator.choice.explanation import Explanation, explain, preference_source
from bridge.operator.choice.preference import DEFAULT, preferred_backends
from bridge.operator.choice.registry import (
    INTERPRETED,
    ONE_THREAD,
    PLATFORMS,
    REFERENCE,
    REGULAR,
    Configurations,
    Generator,
    Registry,
    Snapshot,
    canonical_platform,
)
from bridge.operator.call.keywords import check_keywords
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.call.declared import Dimensions, Rule
from bridge.operator.rules.derivatives import apply
from bridge.operator.tuning.race import Tuning, device_of, entrants, race, winner_of
from bridge.operator.tuning.winners import Request, Winners
from bridge.signature.arguments import check_arrays, parameter_names
from bridge.signature.outputs import Outputs, check_rtol


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
            raise SignatureError(f"XLACustomKernel got the name {name!r}, expected a non-empty string.")
        if outs is not None and not callable(outs):
            raise SignatureError(f"{name}: outs is {outs!r}, expected a function of the arrays and keyword parameters.")
        self.name = name
        self._outs = outs
        self._argument_names = [] if outs is None else parameter_names(outs)[0]
        self._has_side_effect = has_side_effect
        self._registry = Registry(name)
        self._winners = Winners(name)
        self._chosen: tuple[Snapshot, dict[Any, Choice]] = (self._registry.snapshot, {})

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

    def def_kernel(
        self,
        backend: str,
        platform: str,
        generator: Generator,
        asdefault: bool = False,
        configurations: Configurations | None = None,
    ) -> None:
        """Registers a kernel, or replaces the one of this backend and platform.

        Args:
            backend: Any name; what ``backend=`` of a call refers to.
            platform: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
            generator: See the class.
            asdefault: Make it the platform's default; the first kernel of a platform is the default anyway. It then
                also takes the place of what :meth:`tune` has found for the platform.
            configurations: Keyword parameters that the generator gets besides those of the call, by name, such as
                ``{"block=128": {"block": 128}, "block=256": {"block": 256}}``. The first is the default; a call names
                another with ``backend="numba_cuda:block=256"``, and :meth:`tune` tries them all.

        Raises:
            BackendError: The platform is unknown.
            SignatureError: ``backend`` is no name, the generator is not callable, or ``configurations`` is malformed.
        """
        self._register(backend, platform, generator, asdefault, configurations=configurations)

    def _register(
        self,
        backend: str,
        platform: str,
        generator: Generator,
        asdefault: bool,
        standing: int = REGULAR,
        configurations: Configurations | None = None,
    ) -> None:
        self._registry.register(backend, platform, generator, asdefault, standing, configurations)
        if asdefault:
            self._winners.overrule(canonical_platform(platform, self.name))

    def def_numba_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba"`` for ``"cpu"``, see :meth:`def_kernel`."""
        self.def_kernel("numba", "cpu", generator, asdefault, configurations)

    def def_numba_cuda_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba_cuda"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self.def_kernel("numba_cuda", "cuda", generator, asdefault, configurations)

    def def_warp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"warp"`` for ``"cuda"`` and for ``"cpu"``, see :meth:`def_kernel`.

        On the CPU, where Warp runs on one thread, it is the default only until another kernel language is registered
        there, unless ``asdefault`` is True.

        Raises:
            WarpUnavailableError: Warp is not installed; also an ``ImportError``.
        """
        require_warp(f"{self.name}: def_warp_kernel")
        self.def_kernel("warp", "cuda", generator, asdefault, configurations)
        self._register("warp", "cpu", generator, asdefault, ONE_THREAD, configurations)

    def def_pallas_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"pallas"`` for ``"cuda"`` and ``"tpu"``, and interpreted for ``"cpu"``.

        Args:
            generator: See the class; its function calls ``jax.experimental.pallas.pallas_call``. If the generator takes
                a parameter ``interpret``, it is True for the CPU, where Pallas cannot compile, and False elsewhere.
            asdefault: Make it the default of all three platforms. Interpreted, it is otherwise the last choice.
            configurations: See :meth:`def_kernel`.
        """
        for platform in PLATFORMS:
            interpreted = platform == "cpu"
            self._register(
                "pallas",
                platform,
                functools.partial(generator, interpret=interpreted) if _takes(generator, "interpret") else generator,
                asdefault,
                INTERPRETED if interpreted else REGULAR,
                configurations,
            )

    def def_triton_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"triton"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self.def_kernel("triton", "cuda", generator, asdefault, configurations)

    def def_cuda_raw_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"cuda_raw"`` for ``"cuda"``; its generator calls :func:`bridge.cuda_raw_kernel`."""
        self.def_kernel("cuda_raw", "cuda", generator, asdefault, configurations)

    def def_jnp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"jnp"``, plain JAX code, for every platform.

        It is the reference that other backends are compared with, and the default where there is none but interpreted
        ones.
        """
        for platform in PLATFORMS:
            self._register("jnp", platform, generator, asdefault, REFERENCE, configurations)

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
        self._declare("batching rule", rule, lambda rules: replace(rules, batching=rule))

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
        if isinstance(operand, bool) or not isinstance(operand, int | np.integer) or operand < 0:
            raise SignatureError(f"{self.name}: operand is {operand!r}, expected the index of an argument.")
        self._declare(
            "transpose rule",
            rule,
            lambda rules: replace(
                rules,
                transposes=tuple(sorted({**dict(rules.transposes), int(operand): rule}.items(), key=lambda p: p[0])),
            ),
        )

    def def_partitioning(self, dimensions: str, split: Iterable[str]) -> None:
        """Declares which dimensions plain ``jax.jit`` may keep split over devices, so that each runs a part.

        For what this cannot say, wrap the call in ``jax.experimental.custom_partitioning`` or ``shard_map``.

        Args:
            dimensions: Names of the dimensions of each argument and result, as ``"b i, i -> b"``. Equal names mean
                equal extents.
            split: Names of those that the operator treats element by element: a call on a part of them gives that
                part of each result. All others are gathered. A string of names separated by spaces will do.

        Raises:
            SignatureError: The notation is malformed, or a dimension to split is not one of every result.
        """
        if not isinstance(split, Iterable):
            raise SignatureError(f"{self.name}: split is {split!r}, expected names of dimensions.")
        names = frozenset(split.split() if isinstance(split, str) else split)
        parsed = Dimensions.parse(dimensions, names, self.name)
        self._registry.declare(lambda rules: replace(rules, dimensions=parsed))

    def _declare(self, what: str, rule: Rule, change: Callable[[Any], Any]) -> None:
        if not callable(rule):
            raise SignatureError(f"{self.name}: the {what} is {rule!r}, expected a function.")
        self._registry.declare(change)

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend, or ``"backend:configuration"``, the default of a platform, from the next call on.

        It takes the place of what :meth:`tune` has found for the platform. A process that starts later goes by what was
        found while this was the default.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        self._registry.set_default(platform, backend)
        self._winners.overrule(canonical_platform(platform, self.name))

    def __call__(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Any:
        """Runs the operator.

        Args:
            *args: Arrays, of any shape and dtype that the kernels accept.
            outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. May be left
                out if the operator has a function for it.
            backend: The backend to run, or ``"backend:configuration"``; by default the one preferred by
                :func:`bridge.use_backend`, or else what :meth:`tune` found for such a call, or else the default of the
                platform.
            **parameters: Static values for the generator; hashable.

        Returns:
            Arrays in the structure of ``outs``.

        Raises:
            BackendError: No kernel is registered for the request, or (when lowered) for the platform.
            ParameterError: A parameter is a traced value, an array, or not hashable; or (when lowered) one that the
                generator does not take, or one that it takes is left out.
            SignatureError: ``outs`` is malformed or (when lowered) not what the kernel returns; or an argument is a
                container of arrays.
        """
        outputs, static = self._checked(args, outs, parameters)
        snapshot = self._registry.snapshot
        preferred = self._preferred(backend)
        winners = NO_WINNERS
        if DEFAULT in preferred:
            winners = self._winners.find(snapshot, args, outputs.specs, static).references
        choice = self._choose(snapshot, preferred, winners)
        call = OperatorCall(self.name, choice, outputs.specs, static, snapshot.rules, self._has_side_effect)
        return outputs.unflatten(apply(in_current_mode(call, snapshot), *args))

    def tune(
        self,
        *args: Any,
        outs: Any = None,
        backends: Iterable[str] | None = None,
        rtol: float | None = None,
        **parameters: Any,
    ) -> Tuning:
        """Times the backends on these arguments, and makes calls like this one use the fastest that is right.

        Every configuration of every backend of the platform that the arguments are on is compared with ``"jnp"``, or,
        without one, with the first that was registered; it is refused if its results are not the same up to rounding.
        The default of the platform is kept unless another one is clearly faster. Calls that name no backend, with these
        shapes, dtypes and parameters on this kind of device, then use what was chosen; under ``jax.vmap`` the shapes
        are those of one element. Programs that the caller has compiled stay as they are.

        Other processes use it too, as long as they register the same kernels (by their code and what it refers to) with
        the same default, and have the same versions of JAX and of the kernel languages. It is kept in the user's cache
        folder, or in that of the environment variable ``KERNEL_BRIDGE_CACHE_DIR``. Kernels or parameters that depend on
        an object without content of its own, such as an open file, are remembered by this process only.
        :meth:`set_default` and ``asdefault=True`` afterwards overrule it; :meth:`forget` drops it.

        The kernels run many times, also those with side effects.

        Args:
            *args: Arrays, as for a call.
            outs: As for a call.
            backends: What to try: names of backends, which stand for all of their configurations, or
                ``"backend:configuration"``. By default everything.
            rtol: The largest error, relative to the results, that counts as rounding. By default a bound from the
                dtype and the size of the arguments, see :func:`bridge.operator.tuning.race.disagreement`.
            **parameters: As for a call.

        Returns:
            How each candidate came out, to read or to print.

        Raises:
            BackendError: No kernel is registered for the platform, or none of the requested ones; the one to compare
                with fails; no candidate is right; or a kernel changes its inputs.
            SignatureError: As for a call; or an argument is traced or lies on several devices.
        """
        check_arrays(args, self.name, self._argument_names)
        check_rtol(rtol, self.name)
        arrays, device = device_of(args, self.name)
        outputs, static = self._checked(arrays, outs, parameters)
        platform = canonical_platform(device.platform, self.name)
        snapshot = self._registry.snapshot
        tried, reference = entrants(snapshot, platform, backends, self.name)
        default = candidate(snapshot, platform, snapshot.defaults[platform])
        call = OperatorCall(self.name, (), outputs.specs, static, snapshot.rules, self._has_side_effect)
        method, trials = race(call, tried, reference, default, arrays, rtol)
        winner = winner_of(self._winners, snapshot, device, Request.of(arrays, outputs.specs, static), trials)
        self._winners.remember(winner)
        return Tuning(
            operator=self.name,
            platform=platform,
            device_kind=winner.device_kind,
            compared_with=reference.reference,
            proven=reference.backend == "jnp",
            method=method,
            remembered=winner.is_portable,
            trials=trials,
        )

    def forget(self) -> None:
        """Drops everything that :meth:`tune` has found for operators of this name, in this process and on disk."""
        self._winners.forget()

    def explain(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Explanation:
        """Says which backend a call would run on each platform, and why; runs nothing.

        Args:
            *args: As for a call; a ``jax.ShapeDtypeStruct`` does for an array.
            outs: As for a call.
            backend: As for a call.
            **parameters: As for a call.

        Raises:
            BackendError: No kernel is registered for the request.
            ParameterError: As for a call.
            SignatureError: As for a call.
        """
        outputs, static = self._checked(args, outs, parameters)
        snapshot = self._registry.snapshot
        preferred = self._preferred(backend)
        found = self._winners.find(snapshot, args, outputs.specs, static)
        choose(snapshot, preferred, self.name, found.references)
        return explain(self.name, snapshot, preferred, preference_source(backend), found.winners)

    def _preferred(self, backend: str | None) -> tuple[str, ...]:
        if backend is None:
            return preferred_backends()
        if not isinstance(backend, str):
            raise BackendError(f"{self.name}: backend is {backend!r}, expected the name of one, or None.")
        return (backend,)

    def _choose(self, snapshot: Snapshot, preferred: tuple[str, ...], winners: Mapping[str, str]) -> Choice:
        """As :func:`choose`; answers are kept, for an eager call asks each time."""
        known, answers = self._chosen
        if known is not snapshot:
            answers = {}
            self._chosen = (snapshot, answers)
        question = (preferred, *winners.items())
        choice = answers.get(question)
        if choice is None:
            choice = answers[question] = choose(snapshot, preferred, self.name, winners)
        return choice

    def _checked(
        self, args: Sequence[Any], outs: Any, parameters: Mapping[str, Any]
    ) -> tuple[Outputs, tuple[tuple[str, Any], ...]]:
        """The outputs and static parameters of a call."""
        check_arrays(args, self.name, self._argument_names)
        static = self._static(parameters)
        outputs = Outputs.of(self._declared(args, parameters) if outs is None else outs, self.name)
        outputs.check_precision(self.name)
        return outputs, static

    def _declared(self, args: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        if self._outs is None:
            raise SignatureError(
                f"{self.name}: outs is missing. Pass the shapes and dtypes of the results, or construct the operator "
                "with outs, a function of its arguments."
            )
        try:
            return self._outs(*map(jax.typeof, args), **parameters)
        except TypeError:
            check_keywords(self._outs, parameters, self.name, "its function outs", len(args))
            raise

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


def _takes(function: Any, name: str) -> bool:
    """Whether this is a function that takes a keyword argument of this name."""
    if not callable(function):
        return False
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
