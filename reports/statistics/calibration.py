"""Simulates comparisons, to learn how often verdicts are false and which slowdowns they find.

Draws processes of two equal revisions from recorded noise, or from a model of noise, makes cells of head slower where
wanted, and lets the rule of `decision` judge them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reports.statistics.decision import Evidence, decide
from reports.statistics.ranks import Numbers
from reports.statistics.verdict_codes import Code, Verdict

_AT_ONCE = 20_000
"""Cells that are judged together; more need much memory and are not faster."""


class Noise(Protocol):
    """Draws how the times of processes that ran the same code differ."""

    @property
    def cells(self) -> int:
        """The number of cells of a run."""

    def draw(self, random: np.random.Generator, processes: int) -> Numbers:
        """Returns logarithms of times, around any centre: one row per cell, one column per process of one session."""


@dataclass(frozen=True, slots=True)
class RecordedNoise:
    """Noise of recorded runs.

    A process is drawn as a whole, with all of its cells: a process that was slow is slow in all of them. Processes are
    drawn without repetition if the run has enough. If more are wanted, they are drawn with repetition and smoothed: a
    normal deviation is added to each, and the sum is scaled back to the variance of the record. Its width is the rule
    of thumb of Silverman, "Density Estimation", 1986, section 3.4.

    Attributes:
        runs: The logarithms of the times of each run: one row per cell, one column per process. All runs have the same
            number of cells; a simulated session takes all of its processes from one of them.
    """

    runs: tuple[Numbers, ...]

    @property
    def cells(self) -> int:
        """The number of cells of a run."""
        return len(self.runs[0])

    def draw(self, random: np.random.Generator, processes: int) -> Numbers:
        """Returns logarithms of times: one row per cell, one column per process."""
        run = self.runs[random.integers(len(self.runs))]
        count = run.shape[1]
        if processes <= count:
            chosen: Numbers = run[:, random.permutation(count)[:processes]]
            return chosen
        width = 1.06 * count**-0.2
        centre, deviation = run.mean(axis=1, keepdims=True), run.std(axis=1, ddof=1, keepdims=True)
        again = run[:, random.integers(count, size=processes)] - centre
        # The deviations of few numbers from their own mean are too small.
        again *= math.sqrt(count / (count - 1))
        smooth = width * deviation * random.standard_normal(again.shape)
        drawn: Numbers = centre + (again + smooth) / math.sqrt(1 + width**2)
        return drawn


@dataclass(frozen=True, slots=True)
class ModelNoise:
    """Noise by a model, for machines without records.

    Attributes:
        cells: The number of cells of a run.
        low: The standard deviation of the quietest cells between processes, as a share.
        high: The standard deviation of the noisiest cells. Those between are spread evenly on a scale of logarithms.
        outliers: The share of processes in which a cell is disturbed.
        disturbance: A disturbed time is longer by up to this share.
        waves: The standard deviation of what base and head share in a cell, because they ran one after the other.
        shared: The standard deviation of what all cells of a process share.
    """

    cells: int
    low: float = 0.005
    high: float = 0.04
    outliers: float = 0.0
    disturbance: float = 0.5
    waves: float = 0.0
    shared: float = 0.0

    def draw(self, random: np.random.Generator, processes: int) -> Numbers:
        """Returns logarithms of times: one row per cell, one column per process."""
        deviations = np.geomspace(self.low, self.high, self.cells)[:, None]
        drawn = deviations * random.standard_normal((self.cells, processes))
        drawn += (random.random(drawn.shape) < self.outliers) * np.log1p(self.disturbance * random.random(drawn.shape))
        wave = self.waves * random.standard_normal((self.cells, (processes + 1) // 2))
        drawn += np.tile(wave, 2)[:, :processes]
        drawn += self.shared * random.standard_normal(processes)
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What simulated comparisons of one number of processes showed.

    Attributes:
        processes: Processes of each side.
        runs: Simulated comparisons of equal revisions.
        slower: How many of them called a cell SLOWER.
        faster: How many called a cell FASTER.
        same: The share of cells called SAME.
        undecided: The share of cells that could not rule out a large difference.
        found: The share of slowdowns that were called SLOWER, by their size as a share. In each simulated comparison,
            one cell has become slower: the hardest case for the control of false discoveries.
    """

    processes: int
    runs: int
    slower: int
    faster: int
    same: float
    undecided: float
    found: dict[float, float]


def calibrate(
    noise: Noise,
    processes: int,
    slowdowns: Sequence[float],
    *,
    smallest: float,
    large: float,
    q: float,
    runs: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Returns how the rule judges simulated comparisons.

    Args:
        noise: Draws the processes.
        processes: Processes of each side.
        slowdowns: Sizes of the slowdowns to inject, as shares: 0.1 makes one cell of head take 10 % longer.
        smallest: The smallest effect worth a verdict, as a share.
        large: The difference that must not stay undecided.
        q: The share of false discoveries.
        runs: Simulated comparisons.
        seed: Seed of all that is drawn.

    Raises:
        ValueError: There is nothing to simulate.
    """
    if processes < 1 or runs < 1 or noise.cells < 1:
        raise ValueError(f"processes={processes}, runs={runs}, cells={noise.cells}: expected one of each or more.")
    random = np.random.default_rng(seed)
    counts = dict.fromkeys(("slower", "faster", "same", "undecided"), 0)
    found = dict.fromkeys(slowdowns, 0)
    left = runs
    while left:
        some = min(left, max(1, _AT_ONCE // noise.cells))
        left -= some
        drawn = np.stack([noise.draw(random, 2 * processes) for _ in range(some)])
        base, head = drawn[..., :processes], drawn[..., processes:]
        limits = {name: np.array(value) for name, value in (("smallest", smallest), ("large", large))}
        evidence = _evidence(base, head)
        decisions = decide(evidence, **limits, q=q)
        counts["slower"] += int((decisions.verdicts == Verdict.SLOWER).any(axis=1).sum())
        counts["faster"] += int((decisions.verdicts == Verdict.FASTER).any(axis=1).sum())
        counts["same"] += int((decisions.verdicts == Verdict.SAME).sum())
        counts["undecided"] += int(np.isin(decisions.codes, (Code.NOISE, Code.FEW_PROCESSES)).sum())
        victims = random.integers(noise.cells, size=some)
        for size in slowdowns:
            slowed = _slowed(evidence, base, head, victims, size)
            verdicts = decide(slowed, **limits, q=q).verdicts
            found[size] += int((verdicts[np.arange(some), victims] == Verdict.SLOWER).sum())
    return Calibration(
        processes=processes,
        runs=runs,
        slower=counts["slower"],
        faster=counts["faster"],
        same=counts["same"] / runs / noise.cells,
        undecided=counts["undecided"] / runs / noise.cells,
        found={size: count / runs for size, count in found.items()},
    )


def _evidence(base: Numbers, head: Numbers) -> Evidence:
    """Returns the evidence of several runs: numbers of runs x cells x processes give numbers of runs x cells."""
    shape = base.shape[:-1]
    flat = Evidence.of(base.reshape(-1, base.shape[-1]), head.reshape(-1, head.shape[-1]))
    return Evidence(*(getattr(flat, name).reshape(shape) for name in Evidence.__dataclass_fields__))


def _slowed(evidence: Evidence, base: Numbers, head: Numbers, victims: NDArray[np.int64], size: float) -> Evidence:
    """Returns the evidence where, in each run, one cell of head takes longer."""
    runs = np.arange(len(victims))
    own = Evidence.of(base[runs, victims], head[runs, victims] + math.log1p(size))
    fields = []
    for name in Evidence.__dataclass_fields__:
        field = getattr(evidence, name).copy()
        field[runs, victims] = getattr(own, name)
        fields.append(field)
    return Evidence(*fields)
