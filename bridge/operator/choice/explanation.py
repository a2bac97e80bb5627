"""Why a call runs on which backend: the decisions of :func:`bridge.operator.choice.candidates.choose`, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.operator.choice.candidates import TUNED, select
from bridge.operator.choice.preference import DEFAULT, preferred_by
from bridge.operator.choice.registry import CHOSEN, Snapshot
from bridge.operator.tuning.winners import Winner

CALL = "named by the call"


@dataclass(frozen=True)
class Decision:
    """What a call runs on one platform.

    Attributes:
        platform: JAX's name of it.
        backend: The backend; None if the call cannot run there.
        configuration: Its configuration, if it has any.
        reason: Why.
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
    """The outcome of :meth:`bridge.XLACustomKernel.explain`: one decision for each platform that has any kernel."""

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
    """Who asks for a backend here."""
    if backend is not None:
        return CALL
    return f"preferred by {preferred_by()}"


def explain(
    operator: str, snapshot: Snapshot, preferred: Sequence[str], source: str, winners: Mapping[str, Winner]
) -> Explanation:
    """The decisions for a call.

    Args:
        operator: Its name.
        snapshot: What is registered now.
        preferred: As for :func:`bridge.operator.choice.candidates.choose`.
        source: Who prefers that.
        winners: By platform, the winners of this call.
    """
    references = {platform: winner.reference for platform, winner in winners.items()}
    decisions = []
    for platform in sorted(snapshot.kernels):
        selected = select(snapshot, platform, preferred, references)
        if selected is None:
            asked = " or ".join(map(repr, preferred))
            decisions.append(Decision(platform, None, None, f"{asked}, {source}, is not registered for it"))
            continue
        candidate, wish = selected
        if wish == TUNED:
            winner = winners[platform]
            at = winner.tuned_at.astimezone().strftime("%Y-%m-%d %H:%M")
            reason = f"tuned {at}, {winner.microseconds:.4g} us on {winner.device_kind}"
        elif wish == DEFAULT:
            reason = _of_default(snapshot, platform)
        else:
            reason = source
        decisions.append(Decision(platform, candidate.backend, candidate.configuration, reason))
    return Explanation(operator, tuple(decisions))


def _of_default(snapshot: Snapshot, platform: str) -> str:
    if snapshot.standings[platform] == CHOSEN:
        return "made the default by set_default or asdefault"
    if len(snapshot.kernels[platform]) == 1:
        return "the only one"
    return "the first of the highest standing"
