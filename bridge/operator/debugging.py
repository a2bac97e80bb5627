"""Adds the checks of :func:`bridge.debug_mode` to calls of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.debug.checking import label_of, not_exported, run_checked
from bridge.debug.findings import Findings, Place, kept
from bridge.debug.mode import Mode, current_mode, using
from bridge.debug.rewriting import instrumented
from bridge.operator.call.declared import Rule, Rules
from bridge.operator.call.operator_call import Function, OperatorCall
from bridge.operator.choice.candidates import Candidate, Choice, candidate, candidate_for
from bridge.operator.choice.registry import Snapshot
from bridge.operator.rules.selected_kernel import kernel_of
from bridge.operator.tuning.candidate_content import content_of
from bridge.operator.tuning.toolchain import Toolchain


def in_current_mode(call: OperatorCall, snapshot: Snapshot) -> OperatorCall:
    """The call with the checks of the mode in force here; the call itself if there are none.

    Args:
        call: A call without checks.
        snapshot: The kernels that its operator has registered.

    Raises:
        DebugError: An earlier program for several devices has found something.
        SignatureError: The environment variable of the mode is malformed.
    """
    mode = current_mode()
    if not mode:
        return call
    kept.raise_all()
    found = (candidate(snapshot, platform, mode.reference) for platform in sorted(snapshot.kernels) if mode.reference)
    references = tuple(each for each in found if each is not None)
    return replace(call, checks=DebugChecks(mode, references), rules=_in_mode(call.rules, mode))


@dataclass(frozen=True)
class DebugChecks:
    """The checks of a call: an :class:`~bridge.operator.call.operator_call.OperatorChecks`.

    Attributes:
        mode: The checks.
        references: The kernel to compare with, on each platform that has it.
    """

    mode: Mode
    references: Choice

    def around(self, call: OperatorCall, platform: str, exported: bool) -> Function:
        """Returns the kernel with the checks of the debug mode around it."""
        if exported:
            raise not_exported(call.name)
        plain = replace(call, checks=None)
        selected = candidate_for(call.choice, platform, call.name)
        kernel = kernel_of(plain, selected)
        others = (each for each in self.references if each.platform == platform and each != selected)
        reference = next((kernel_of(plain, each) for each in others), None)

        label = _label(call, selected)

        def run(place: Place, args: Sequence[Any]) -> list[Any]:
            return instrumented(kernel, args, place if self.mode.outputs else None, self.mode.inputs)(*args)

        def checked(*args: Any) -> list[Any]:
            findings = Findings(Place.of(call.name, selected.reference, platform, args))
            return run_checked(findings, self.mode, label, run, reference, args)

        return checked


def _label(call: OperatorCall, selected: Candidate) -> str:
    outputs = tuple((str(spec.dtype), spec.shape) for spec in call.outputs)
    static = content_of((call.parameters.items, selected.options.items), Toolchain())
    return label_of(call.name, selected.reference, static, outputs, call.batches)


@dataclass(frozen=True)
class _RuleInMode:
    """A rule that calls operators in the mode of its own call. JAX may run it after the context has ended."""

    rule: Rule
    mode: Mode

    @property
    def __wrapped__(self) -> Rule:
        return self.rule

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        with using(self.mode):
            return self.rule(*args, **keywords)


def _in_mode(rules: Rules, mode: Mode) -> Rules:
    def wrapped(rule: Rule) -> Rule:
        return _RuleInMode(rule, mode)

    return replace(
        rules,
        jvp=rules.jvp and wrapped(rules.jvp),
        vjp=rules.vjp and (wrapped(rules.vjp[0]), wrapped(rules.vjp[1])),
        transposes=tuple((operand, wrapped(rule)) for operand, rule in rules.transposes),
        batching=rules.batching and wrapped(rules.batching),
    )
