"""Defines :class:`Measurement`: a cell that is ready to be timed in this process, round by round."""

from __future__ import annotations

import abc
from typing import Any

from reports import ProcessTimes
from suites.numerics.arrays import Inputs


class Measurement(abc.ABC):
    """A cell that is compiled and whose inputs lie on the device.

    The cells of one contest take turns: one round each, in a random order, then the next round.

    Attributes:
        method: How time is taken, as recorded.
        cache: State of the caches before a call, as recorded: ``hot`` or ``cold``.
    """

    method: str
    cache: str

    @abc.abstractmethod
    def round(self) -> None:
        """Takes the samples of one round, and keeps them."""

    @abc.abstractmethod
    def times(self) -> ProcessTimes:
        """Returns all samples so far.

        Raises:
            RecordError: The samples are no times: there are none, or the noise is larger than the calls.
        """

    @abc.abstractmethod
    def on_other(self, inputs: Inputs) -> Any:
        """Runs the timed program on other inputs, which take the addresses of the timed ones; returns its results.

        The timed inputs are gone then, so no round may follow.
        """
