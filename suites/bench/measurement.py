"""Defines :class:`Measurement`: a cell that is ready to be timed in this process, round by round."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from reports import ProcessTimes


class Measurement(abc.ABC):
    """A cell that is compiled and whose inputs lie on the device.

    The cells of one contest take turns: one round each, in a random order, then the next round.

    Attributes:
        method: How time is taken, as recorded.
        cache: State of the caches before a call, as recorded: ``hot`` or ``cold``.
        loops: Calls in the shorter loop of two-point timing; else 1.
        round_s: About how long a round takes, in seconds.
    """

    method: str
    cache: str
    loops: int = 1
    round_s: float = 0.0

    @abc.abstractmethod
    def round(self) -> None:
        """Takes the samples of one round, and keeps them."""

    @abc.abstractmethod
    def times(self) -> ProcessTimes:
        """Returns all samples so far.

        Raises:
            RecordError: The samples are no times: there are none, or the noise is larger than the calls.
            ClockError: Two clocks disagree about how long the samples took.
        """

    @abc.abstractmethod
    def on_other(self, inputs: Sequence[Any]) -> Any:
        """Runs the timed program on other inputs on the device; returns its results.

        They lie at the addresses of the timed ones, which are gone then, so no round may follow.
        """
