"""Lets the author of an operator register its kernels and declare its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from bridge.errors import SignatureError
from bridge.languages.language import Language, Standing
from bridge.operator.call.declared import Declarations, Rule, Rules
from bridge.operator.call.dimensions import Dimensions
from bridge.operator.choice.registry import Configurations, Generator, Registry, Snapshot, canonical_platform
from bridge.operator.tuning.toolchain import Toolchain
from bridge.operator.tuning.winners import Winners


class OperatorDefinition:
    """The kernels, defaults and rules of an operator; :class:`~bridge.operator.custom_kernel.CustomKernel` calls it.

    Args:
        name: Names the operator in errors and in jaxprs.

    Raises:
        SignatureError: The name is no non-empty string.
    """

    _toolchain: ClassVar[Toolchain] = Toolchain()
    """The kernel languages that a subclass registers, as far as tuned times depend on them."""

    def __init__(self, name: str):
        if not isinstance(name, str) or not name:
            raise SignatureError(f"{type(self).__name__} got the name {name!r}, expected a non-empty string.")
        self.name = name
        self._registry = Registry(name)
        self._declarations = Declarations()
        self._winners = Winners(name, self._toolchain)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._registry.snapshot.describe()})"

    @property
    def _kernels(self) -> dict[str, dict[str, Generator]]:
        """The registered generators by platform and backend; a copy."""
        return {platform: dict(backends) for platform, backends in self._registry.snapshot.kernels.items()}

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform; a copy. Change it with :meth:`set_default`."""
        return dict(self._registry.snapshot.defaults)

    @property
    def registered(self) -> Snapshot:
        """The kernels that are registered now, with their configurations and defaults; later changes do not show."""
        return self._registry.snapshot

    @property
    def rules(self) -> Rules:
        """The rules for JAX's transformations that are declared now; later changes do not show."""
        return self._declarations.rules

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
            asdefault: Make it the platform's default. The first kernel of a platform is the default anyway. It then
                also takes the place of the winner that :meth:`tune` has found for the platform.
            configurations: Keyword parameters that the generator gets in addition to the call's, by name, such as
                ``{"block=128": {"block": 128}, "block=256": {"block": 256}}``. The first is the default. A call names
                another one after a colon, as ``backend="mine:block=256"``, and :meth:`tune` tries them all.

        Raises:
            BackendError: The platform is unknown.
            SignatureError: ``backend`` is no name, the generator is not callable, or ``configurations`` is malformed.
        """
        self._register(backend, platform, generator, asdefault, Standing.REGULAR, configurations)

    def _def_kernel_in(
        self, language: Language, generator: Generator, asdefault: bool, configurations: Configurations | None
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

    def _register(
        self,
        backend: str,
        platform: str,
        generator: Generator,
        asdefault: bool,
        standing: Standing,
        configurations: Configurations | None,
    ) -> None:
        self._registry.register(backend, platform, generator, asdefault, standing, configurations)
        if asdefault:
            self._winners.overrule(canonical_platform(platform, self.name))

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend, or ``"backend:configuration"``, the default of a platform from the next call on.

        It takes the place of the winner that :meth:`tune` has found for the platform. A process that starts later uses
        the winners that were found while this was the default.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        self._registry.set_default(platform, backend)
        self._winners.overrule(canonical_platform(platform, self.name))

    def available_backends(self, platform: str) -> tuple[str, ...]:
        """The backends registered for a platform, in order of registration.

        Raises:
            BackendError: The platform is unknown.
        """
        return tuple(self._registry.snapshot.kernels.get(canonical_platform(platform, self.name), {}))

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
        self._declare("batching rule", rule, lambda rules: replace(rules, batching=rule))

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
        self._declare("forward rule", forward, lambda rules: replace(rules, vjp=(forward, backward), jvp=None))
        self._declare("backward rule", backward, lambda rules: rules)

    def def_jvp(self, rule: Rule) -> None:
        """Declares the derivative for forward mode, from which JAX derives reverse mode.

        It replaces a derivative for reverse mode.

        Args:
            rule: ``rule(primals, tangents, outs, **parameters)`` returns the results and their tangents, both lists.
                The tangents are a linear function of the given ones; None stands for integers and booleans.

        Raises:
            SignatureError: The rule is no function.
        """
        self._declare("rule", rule, lambda rules: replace(rules, jvp=rule, vjp=None))

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

        self._declare("transpose rule", rule, change)

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
        self._declarations.change(lambda rules: replace(rules, dimensions=parsed))

    def _declare(self, what: str, rule: Rule, change: Callable[[Any], Any]) -> None:
        if not callable(rule):
            raise SignatureError(f"{self.name}: the {what} is {rule!r}, expected a function.")
        self._declarations.change(change)
