"""Lets the author of an operator register its kernels and declare its rules."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from bridge.errors import SignatureError
from bridge.operator.choices import Tuning
from bridge.operator.operator_call import Dimensions, Generator, Rule, Rules
from bridge.operator.registry import Configurations, Snapshot, canonical_platform
from bridge.table import Language, Standing


class OperatorDefinition:
    """The kernels, defaults and rules of an operator; :class:`~bridge.operator.custom_kernel.CustomKernel` calls it.

    A copy is an operator of its own: what is registered or declared later in one does not show in the other.

    Args:
        name: Names the operator in errors and in jaxprs.

    Raises:
        SignatureError: The name is no non-empty string.
    """

    def __init__(self, name: str):
        if not isinstance(name, str) or not name:
            raise SignatureError(f"{type(self).__name__} got the name {name!r}, expected a non-empty string.")
        self.name = name
        self._lock = threading.Lock()
        # Both are replaced, never changed. So are the compiled programs of eager calls, after each change.
        self._snapshot = Snapshot(name)
        self._rules = Rules()
        self._programs: dict[Any, Callable[..., Any]] = {}
        self._tunings: tuple[Tuning, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """All but what counts in this process only."""
        return {**vars(self), "_lock": None, "_programs": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __deepcopy__(self, memo: Any) -> Self:
        return copy.copy(self)  # kernels and rules are functions, which Python copies by reference

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._snapshot.describe()})"

    @property
    def _kernels(self) -> dict[str, dict[str, Generator]]:
        """The registered generators by platform and backend; a copy."""
        return self._snapshot.kernels

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform; a copy. Change it with :meth:`set_default`."""
        return self._snapshot.defaults

    @property
    def registered(self) -> Snapshot:
        """The kernels that are registered now, with their configurations and defaults; later changes do not show."""
        return self._snapshot

    @property
    def rules(self) -> Rules:
        """The rules for JAX's transformations that are declared now; later changes do not show."""
        return self._rules

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
            backend: Any name; ``backend=`` of a call refers to it.
            platform: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
            generator: See the class.
            asdefault: Make it the platform's default. The first kernel of a platform is the default anyway.
            configurations: Keyword parameters that the generator gets in addition to the call's, by name, such as
                ``{"block=128": {"block": 128}, "block=256": {"block": 256}}``. The first is the default. A call names
                another one after a colon, as ``backend="mine:block=256"``, and :meth:`tune` tries them all.

        Raises:
            BackendError: The platform is unknown.
            SignatureError: ``backend`` is no name, the generator is not callable, or ``configurations`` is malformed.
        """
        self._register(backend, platform, generator, asdefault, Standing.REGULAR, configurations)

    def def_kernel_in(
        self,
        language: Language,
        generator: Generator,
        asdefault: bool = False,
        configurations: Configurations | None = None,
    ) -> None:
        """Registers a kernel for all platforms of a language, as the backend of the language's name.

        Raises:
            ImportError: The language is not installed.
            SignatureError: The generator is not callable, or ``configurations`` is malformed.
        """
        language.require(f"{self.name}: def_{language.name}_kernel")
        for platform, standing in language.platforms.items():
            adapted = language.adapted(generator, platform)
            self._register(language.name, platform, adapted, asdefault, standing, configurations)

    def _register(self, *arguments: Any) -> None:
        """Registers a kernel; takes the arguments of :meth:`~bridge.operator.registry.Snapshot.registered`."""
        self._change(snapshot=lambda old: old.registered(*arguments))

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend, or ``"backend:configuration"``, the default of a platform from the next call on.

        What :meth:`tune` found before does not count any more.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        self._change(snapshot=lambda old: old.with_default(platform, backend))

    def _change(
        self,
        snapshot: Callable[[Snapshot], Snapshot] | None = None,
        rules: Callable[[Rules], Rules] | None = None,
    ) -> None:
        """Replaces what is registered or declared, and then the programs that were made from it."""
        with self._lock:
            if snapshot is not None:
                self._snapshot, self._tunings = snapshot(self._snapshot), ()
            self._rules = self._rules if rules is None else rules(self._rules)
            self._programs = {}

    def available_backends(self, platform: str) -> tuple[str, ...]:
        """The backends registered for a platform, in order of registration.

        Raises:
            BackendError: The platform is unknown.
        """
        return tuple(self._snapshot.kernels.get(canonical_platform(platform, self.name), {}))

    def def_batching(self, rule: Rule) -> None:
        """Declares how ``jax.vmap`` runs a batch. Without a rule, the selected kernel runs it.

        Args:
            rule: ``rule(extent, is_batched, *args, outs, **parameters)``, as for ``jax.custom_batching.custom_vmap``.
                It gets the extent of the batch, whether each argument has the batch as its first axis, and the
                arguments; ``outs`` describes one element. It returns results that all have the batch as their first
                axis. It may call the operator.

        Raises:
            SignatureError: The rule is no function.
        """
        self._declare(lambda rules: replace(rules, batching=rule), batching_rule=rule)

    def def_vjp(self, forward: Rule, backward: Rule) -> None:
        """Declares the derivative for reverse mode. It replaces a derivative for forward mode.

        Args:
            forward: ``forward(*args, outs, **parameters)`` returns the results, and residuals for the backward rule. It
                may call the operator.
            backward: ``backward(residuals, cotangents, outs, **parameters)`` returns a gradient for each argument.
                ``cotangents`` is a list. In it, and among the gradients, None stands for integers and booleans.

        Raises:
            SignatureError: A rule is no function.
        """
        pair = forward, backward
        self._declare(lambda rules: replace(rules, vjp=pair, jvp=None), forward_rule=forward, backward_rule=backward)

    def def_jvp(self, rule: Rule) -> None:
        """Declares the derivative for forward mode, from which JAX derives reverse mode.

        It replaces a derivative for reverse mode.

        Args:
            rule: ``rule(primals, tangents, outs, **parameters)`` returns the results and their tangents, both lists.
                The tangents are a linear function of the given ones; None stands for integers and booleans.

        Raises:
            SignatureError: The rule is no function.
        """
        self._declare(lambda rules: replace(rules, jvp=rule, vjp=None), rule=rule)

    def def_transpose(self, operand: int, rule: Rule) -> None:
        """Declares the operator linear in an operand, which makes it differentiable in both modes.

        Args:
            operand: Index of the argument.
            rule: ``rule(cotangents, *others, outs, **parameters)`` returns the cotangent of the operand. It gets a list
                of cotangents, and the other arguments in order.

        Raises:
            SignatureError: ``operand`` is no index, or the rule is no function.
        """
        if isinstance(operand, bool) or not isinstance(operand, int | np.integer) or operand < 0:
            raise SignatureError(f"{self.name}: operand is {operand!r}, expected the index of an argument.")

        def change(rules: Rules) -> Rules:
            transposes = {**dict(rules.transposes), int(operand): rule}
            return replace(rules, transposes=tuple(sorted(transposes.items(), key=lambda pair: pair[0])))

        self._declare(change, transpose_rule=rule)

    def def_partitioning(self, dimensions: str, split: Iterable[str]) -> None:
        """Declares which dimensions may stay split over the devices of a mesh, so that each device runs a part.

        A batch of ``jax.vmap`` stays split without that. If this notation cannot describe the operator, wrap the call
        in ``jax.experimental.custom_partitioning`` or ``shard_map``.

        Args:
            dimensions: Names of the dimensions of each argument and result, as ``"b i, i -> b"``. Equal names mean
                equal extents.
            split: Names of dimensions that the operator treats element by element: a call on a part of them gives the
                same part of each result. Other dimensions are gathered, with a :class:`bridge.GatherWarning`. Either a
                list, or a string of names separated by spaces.

        Raises:
            SignatureError: The notation is malformed, or a result lacks a dimension that may be split.
        """
        if not isinstance(split, Iterable):
            raise SignatureError(f"{self.name}: split is {split!r}, expected names of dimensions.")
        names = frozenset(split.split() if isinstance(split, str) else split)
        parsed = Dimensions.parse(dimensions, names, self.name)
        self._change(rules=lambda rules: replace(rules, dimensions=parsed))

    def _declare(self, change: Callable[[Rules], Rules], **rules: Rule) -> None:
        for what, rule in rules.items():
            if not callable(rule):
                raise SignatureError(f"{self.name}: the {what.replace('_', ' ')} is {rule!r}, expected a function.")
        self._change(rules=change)
