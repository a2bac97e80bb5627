"""Calls, tunes and explains operators. An operator has several kernels; JAX runs one of them on each platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from bridge.agreement import REFERENCE_BACKEND, check_rtol
from bridge.debug.mode import operator_mode
from bridge.environment import VARIABLES
from bridge.errors import BackendError
from bridge.operator.call.declared import Rules
from bridge.operator.call.interface import Interface
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.choice.candidates import NO_WINNERS, Choice, candidate, choose
from bridge.operator.choice.explanation import Explanation, explain, preference_source
from bridge.operator.choice.preference import DEFAULT, preferred, preferred_backends
from bridge.operator.choice.registry import Snapshot, canonical_platform
from bridge.operator.debugging import in_current_mode
from bridge.operator.definition import OperatorDefinition
from bridge.operator.eager import (
    BACKEND,
    DEBUG,
    EagerPrograms,
    Program,
    concrete,
    kernels_of,
    key_of,
    note_concrete,
    shared,
)
from bridge.operator.rules.application import apply, run
from bridge.operator.static_parameters import Parameters
from bridge.operator.tuning.entrants import check_alone, device_of, entrants
from bridge.operator.tuning.outcome import Tuning
from bridge.operator.tuning.race import race
from bridge.operator.tuning.winners import Request
from bridge.signature.outputs import Outputs


class CustomKernel(OperatorDefinition):
    """An operator whose kernels may be in any language; :class:`bridge.XLACustomKernel` names the languages.

    Args:
        name: Names the operator in errors and in jaxprs.
        outs: A function of the arrays (of anything with shape and dtype) and of the keyword parameters. It returns
            ``outs`` for calls that do not pass it.
        has_side_effect: Run a call even if nothing uses its results. The kernel's own call must say so too.
    """

    def __init__(self, name: str, outs: Callable[..., Any] | None = None, has_side_effect: bool = False):
        super().__init__(name)
        self._interface = Interface(name, outs)
        self._has_side_effect = has_side_effect
        self._programs = EagerPrograms()
        self._chosen: tuple[Snapshot, dict[Any, Choice]] = (self._registry.snapshot, {})

    def __call__(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Any:
        """Runs the operator.

        Args:
            *args: Arrays, of any shape and dtype that the kernels accept.
            outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. May be left
                out if the operator has a function for it.
            backend: The backend to run, or ``"backend:configuration"``. By default, the one preferred by
                :func:`bridge.use_backend`, or else the one that :meth:`tune` found for such a call, or else the default
                of the platform.
            **parameters: Static values for the generator; hashable.

        Returns:
            Arrays in the structure of ``outs``.

        Raises:
            BackendError: No kernel is registered for the request, or (when lowered) for the platform.
            ParameterError: A parameter is a traced value, an array, or not hashable. When lowered: the generator does
                not take a parameter of the call, or lacks one.
            SignatureError: ``outs`` is malformed; an argument is a container of arrays; or (when lowered) the kernel
                returns other shapes and dtypes than ``outs``.
        """
        snapshot, rules = self._registry.snapshot, self._declarations.rules
        # What follows is written out here, because each call of a function takes a hundredth of an eager call.
        of_snapshot, of_rules, of_winners, plain = self._programs.plain
        if (
            plain is not None
            and of_snapshot is snapshot
            and of_rules is rules
            and of_winners is self._winners.latest
            and outs is None
            and backend is None
            and not parameters
            and operator_mode.get() is None
            and not preferred.get()
            and DEBUG not in VARIABLES
            and BACKEND not in VARIABLES
        ):
            for arg in args:
                if type(arg) not in concrete:
                    break
            else:
                return plain(*args)
        try:
            key = key_of(args, outs, backend, parameters)
        except (TypeError, AttributeError):  # something in it is not what it should be: the long way says what
            key = None
        of_snapshot, of_rules, of_winners, programs = self._programs.current
        program = programs.get(key)  # nothing has the key None
        if program is not None and of_snapshot is snapshot and of_rules is rules and of_winners is self._winners.latest:
            return program(*args)
        if key is None and note_concrete(args):  # the first call of this process with such arrays
            return self(*args, outs=outs, backend=backend, **parameters)
        outputs, static = self._interface.checked(args, outs, parameters)
        backends = self._preferred(backend)
        call = self._call(args, outputs, static, snapshot, rules, backends)
        if key is None:
            return outputs.unflatten(apply(in_current_mode(call, snapshot), *args))
        winners = self._winners.latest  # read by the choice
        declared = None if outs is None else outputs
        program = self._program(declared, static, snapshot, rules, backends)
        results = program(*args)
        self._programs.add(key, program, snapshot, rules, winners)
        return results

    def _call(
        self,
        args: Sequence[Any],
        outputs: Outputs,
        static: Parameters,
        snapshot: Snapshot,
        rules: Rules,
        preferred: tuple[str, ...],
        tuned: bool = True,
    ) -> OperatorCall:
        winners = NO_WINNERS
        if DEFAULT in preferred and tuned:
            winners = self._winners.find(snapshot, args, outputs.specs, static).references
        choice = self._choose(snapshot, preferred, winners)
        return OperatorCall(self.name, choice, outputs.specs, static, rules, self._has_side_effect)

    def _program(
        self,
        declared: Outputs | None,
        static: Parameters,
        snapshot: Snapshot,
        rules: Rules,
        preferred: tuple[str, ...],
    ) -> Program:
        """The program of an eager call: a function of the arrays, which JAX traces for their types.

        Args:
            declared: The outputs that the call passes; None if they follow from the arrays.
            static: The parameters of the call.
            snapshot: The kernels that are registered now.
            rules: The rules that are declared now.
            preferred: The backends that the call prefers.
        """

        tuned = bool(self._winners.latest)

        def operator(*args: Any) -> Any:
            outputs = declared
            if outputs is None:
                outputs = self._interface.checked(args, None, dict(static.items))[0]
            else:
                outputs.check_precision(self.name)
            call = self._call(args, outputs, static, snapshot, rules, preferred, tuned)
            return outputs.unflatten(run(call, *args))

        def make() -> Program:
            return jax.jit(operator, inline=True)

        if tuned:
            return make()  # copies may find other winners for other types of arrays
        return shared(
            (self.name, self.outs, self._has_side_effect, declared, static, kernels_of(snapshot), rules, preferred),
            make,
        )

    @property
    def outs(self) -> Callable[..., Any] | None:
        """The function that returns ``outs`` for calls that do not pass it; None if each call has to pass it."""
        return self._interface.outs

    def tune(
        self,
        *args: Any,
        outs: Any = None,
        backends: Iterable[str] | None = None,
        rtol: float | None = None,
        **parameters: Any,
    ) -> Tuning:
        """Times the backends on these arguments, and makes calls like this one use the fastest one that is right.

        Every configuration of every backend of the platform of the arguments takes part. Its results are compared with
        the results of ``"jnp"``, or, without it, of the backend that was registered first. A backend is refused if its
        results differ by more than rounding, see ``rtol``. The default of the platform is kept unless another backend
        is clearly faster.

        Calls that name no backend, with these shapes, dtypes and parameters on this kind of device, then use the
        winner. Under ``jax.vmap``, the shapes of one element count. Programs that are already compiled do not change.

        Other processes use the winner too, if they register the same kernels (by their code and what it refers to) with
        the same default, and have the same versions of JAX and of the kernel languages. It is kept in the user's cache
        folder, or in the folder that the environment variable ``KERNEL_BRIDGE_WINNERS_DIR`` or
        ``KERNEL_BRIDGE_CACHE_DIR`` names. If a kernel or a parameter depends on an object without content of its own,
        such as an open file, only this process remembers the winner. :meth:`set_default` and ``asdefault=True``
        afterwards overrule it; :meth:`forget` drops it.

        The kernels run many times, also those with side effects.

        Programs that run in several processes must be the same in all of them, so there each winner would have to be
        the same. Winners do not count there: tune in one process, and give its winner to :meth:`set_default` in all.

        Args:
            *args: Arrays, as for a call.
            outs: As for a call.
            backends: The backends to try: names, which stand for all of their configurations, or
                ``"backend:configuration"``. By default everything.
            rtol: The relative tolerance. The rule is the same as for :func:`bridge.debug_mode`: integers and booleans
                are equal, NaN and infinities are in the same places, and other numbers differ by at most ``rtol`` times
                the larger one of the expected magnitude and the upper quartile of all expected magnitudes. By default,
                it follows from the dtype and the sizes of the arguments: 7.6e-5 for float32 and 100 000 elements.
                :mod:`bridge.agreement` has the whole rule.
            **parameters: As for a call.

        Returns:
            The trial of each candidate, to read or to print.

        Raises:
            BackendError: No kernel is registered for the platform, or none of the requested ones; the backend to
                compare with fails; no candidate is right; a kernel changes its inputs; or this is one of several
                processes of ``jax.distributed``.
            SignatureError: As for a call; or an argument is traced, or the arguments lie on several devices.
        """
        self._interface.check_arguments(args)
        check_rtol(rtol, self.name)
        check_alone(self.name)
        arrays, device = device_of(args, self.name)
        outputs, static = self._interface.checked(arrays, outs, parameters)
        platform = canonical_platform(device.platform, self.name)
        snapshot = self._registry.snapshot
        tried, reference = entrants(snapshot, platform, backends, self.name)
        default = candidate(snapshot, platform, snapshot.defaults[platform])
        rules = self._declarations.rules
        call = OperatorCall(self.name, (), outputs.specs, static, rules, self._has_side_effect)
        method, trials = race(call, tried, reference, default, arrays, rtol)
        kind = self._toolchain.kind_of(device)
        proven = reference.backend == REFERENCE_BACKEND
        request = Request.of(arrays, outputs.specs, static)
        winner = self._winners.winner(snapshot, platform, kind, request, trials)
        self._winners.remember(winner)
        return Tuning(self.name, platform, kind, reference.reference, proven, method, winner.is_portable, trials)

    def forget(self) -> None:
        """Drops all winners that :meth:`tune` has found for operators of this name, in this process and on disk."""
        self._winners.forget()

    def explain(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Explanation:
        """Says which backend a call would run on each platform, and why; runs nothing.

        Args:
            *args: As for a call; a ``jax.ShapeDtypeStruct`` may stand for an array.
            outs: As for a call.
            backend: As for a call.
            **parameters: As for a call.

        Raises:
            BackendError: No kernel is registered for the request.
            ParameterError: As for a call.
            SignatureError: As for a call.
        """
        outputs, static = self._interface.checked(args, outs, parameters)
        snapshot = self._registry.snapshot
        preferred = self._preferred(backend)
        found = self._winners.find(snapshot, args, outputs.specs, static)
        choose(snapshot, preferred, self.name, found.references)
        return explain(self.name, snapshot, preferred, preference_source(backend), found.references, found.reasons)

    def _preferred(self, backend: str | None) -> tuple[str, ...]:
        if backend is None:
            return preferred_backends()
        if not isinstance(backend, str):
            raise BackendError(f"{self.name}: backend is {backend!r}, expected the name of one, or None.")
        return (backend,)

    def _choose(self, snapshot: Snapshot, preferred: tuple[str, ...], winners: Mapping[str, str]) -> Choice:
        """The answer of :func:`choose`. Answers are kept, because every eager call asks."""
        known, answers = self._chosen
        if known is not snapshot:
            answers = {}
            self._chosen = (snapshot, answers)
        question = (preferred, *winners.items())
        choice = answers.get(question)
        if choice is None:
            choice = answers[question] = choose(snapshot, preferred, self.name, winners)
        return choice
