"""Holds the results of tuning an operator, to read or to print."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.StrEnum):
    """The result for one candidate."""

    CHOSEN = "chosen"
    SLOWER = "slower"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True)
class Trial:
    """The trial of one candidate.

    Attributes:
        backend: The name of the backend.
        configuration: The name of its configuration, if it has any.
        status: Chosen, or why not.
        microseconds: Median time of a call; None if it was not timed.
        p20: 20th percentile, in microseconds.
        p80: 80th percentile, in microseconds.
        reason: Why it is wrong or failed, or why the fastest one was not chosen.
    """

    backend: str
    configuration: str | None
    status: Outcome
    microseconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    reason: str | None = None

    @property
    def reference(self) -> str:
        """Its name in a call: ``"backend"`` or ``"backend:configuration"``."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"

    def __str__(self) -> str:
        times = "" if self.microseconds is None else f" {self.microseconds:.4g} us ({self.p20:.4g}-{self.p80:.4g})"
        return f"{self.reference}: {self.status}{times}" + (f", {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Tuning:
    """The result of :meth:`bridge.XLACustomKernel.tune`.

    Attributes:
        operator: The name of the operator.
        platform: The platform of the arguments.
        device_kind: The kind of device that the times are from.
        compared_with: The backend whose results the others have to agree with.
        proven: Whether ``compared_with`` is the reference, ``"jnp"``. Otherwise it is the first registered backend, and
            the trials only show that the backends agree.
        method: How calls were timed: ``"calls"`` one by one, or ``"in a loop"`` inside one program.
        remembered: Whether other processes find the winner.
        trials: One for each candidate, in order of registration.
    """

    operator: str
    platform: str
    device_kind: str
    compared_with: str
    proven: bool
    method: str
    remembered: bool
    trials: tuple[Trial, ...]

    @property
    def chosen(self) -> Trial:
        """The trial of the winner."""
        return next(trial for trial in self.trials if trial.status is Outcome.CHOSEN)

    def __str__(self) -> str:
        compared = f"compared with {self.compared_with}"
        if not self.proven:
            compared += ", the first registered: agreement is all that was shown"
        kept = "remembered" if self.remembered else "remembered by this process only"
        head = f"{self.operator} on {self.platform} ({self.device_kind}), {self.method}, {compared}; {kept}"
        return "\n".join([head, *(f"  {trial}" for trial in self.trials)])
