"""Explains which backend a call runs on each platform, and why, for :meth:`bridge.XLACustomKernel.explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.languages.language import Standing
from bridge.operator.choice.candidates import TUNED, select
from bridge.operator.choice.preference import DEFAULT, preferred_by
from bridge.operator.choice.registry import Snapshot


@dataclass(frozen=True)
class Decision:
    """The backend that a call runs on one platform.

    Attributes:
        platform: JAX's name of the platform.
        backend: The backend; None if the call cannot run there.
        configuration: The name of its configuration, if it has any.
        reason: Why this backend runs, or why none does.
    """

    platform: str
    backend: str | None
    configuration: str | None
    reason: str

    def __str__(self) -> str:
        name = "nothing" if self.backend is None else self.backend
        return f"{self.platform}: {name}{f':{self.configuration}' if self.configuration else ''} ({self.reason})"


@dataclass(frozen=True)
class Explanation:
    """The result of :meth:`bridge.XLACustomKernel.explain`: one decision for each platform that has any kernel.

    Attributes:
        operator: The name of the operator.
        decisions: The decisions, sorted by platform.
    """

    operator: str
    decisions: tuple[Decision, ...]

    def __getitem__(self, platform: str) -> Decision:
        for decision in self.decisions:
            if decision.platform == platform:
                return decision
        raise KeyError(platform)

    def __str__(self) -> str:
        return "\n".join([self.operator, *(f"  {decision}" for decision in self.decisions)])


def preference_source(backend: str | None) -> str:
    """Says who asks for a backend here; ``backend`` is the one that the call names, if any."""
    if backend is not None:
        return "named by the call"
    return f"preferred by {preferred_by()}"


def explain(
    operator: str,
    snapshot: Snapshot,
    preferred: Sequence[str],
    source: str,
    winners: Mapping[str, str],
    tuned: Mapping[str, str],
) -> Explanation:
    """The decisions of :func:`~bridge.operator.choice.candidates.choose` for a call, with their reasons.

    Args:
        operator: The name of the operator.
        snapshot: The kernels that are registered now.
        preferred: As for ``choose``.
        source: Who prefers these backends.
        winners: As for ``choose``.
        tuned: Says for each of the winners when and how it was found.
    """
    decisions = []
    for platform in sorted(snapshot.kernels):
        selected = select(snapshot, platform, preferred, winners)
        if selected is None:
            asked = " or ".join(map(repr, preferred))
            decisions.append(Decision(platform, None, None, f"{asked}, {source}, is not registered for it"))
            continue
        candidate, wish = selected
        if wish == TUNED:
            reason = tuned[platform]
        elif wish == DEFAULT:
            reason = _of_default(snapshot, platform)
        else:
            reason = source
        decisions.append(Decision(platform, candidate.backend, candidate.configuration, reason))
    return Explanation(operator, tuple(decisions))


def _of_default(snapshot: Snapshot, platform: str) -> str:
    if snapshot.standings[platform] == Standing.CHOSEN:
        return "made the default by set_default or asdefault"
    if len(snapshot.kernels[platform]) == 1:
        return "the only one"
    return "the first of the highest standing"
