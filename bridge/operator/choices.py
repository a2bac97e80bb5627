"""Holds which backend is the fastest for a call, for a block of code, for a file, and for other processes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import jax

from bridge.errors import SignatureError
from bridge.operator.operator_call import Parameters


@dataclass(frozen=True)
class Question:
    """The calls that a choice counts for. It is text, so that all processes mean the same.

    Attributes:
        operator: The name of the operator.
        arguments: The types of the arguments, as ``"float32[4,3]"``, without batches of ``jax.vmap``.
        results: The types of the results.
        parameters: Pairs of the name and the ``repr`` of each parameter, without addresses.
    """

    operator: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, operator: str, args: Iterable[Any], results: Iterable[Any], parameters: Parameters) -> Question:
        """The question of a call on these arrays, or on anything with a type."""
        arguments = tuple(_text(jax.typeof(arg)) for arg in args)
        named = [(name, re.sub(r" at 0x[0-9a-f]+", "", repr(value))) for name, value in parameters.items]
        return cls(operator, arguments, tuple(map(_text, results)), tuple(named))

    def __str__(self) -> str:
        return f"{self.operator}({', '.join([*self.arguments, *map('='.join, self.parameters)])})"


def _text(array: Any) -> str:
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


@dataclass(frozen=True)
class Trial:
    """The trial of one candidate.

    Attributes:
        backend: Its name in a call: ``"backend"`` or ``"backend:configuration"``.
        status: ``"chosen"``, ``"slower"``, ``"wrong"`` or ``"failed"``.
        microseconds: Median time of a call; None if it was not timed.
        p20: 20th percentile, in microseconds.
        p80: 80th percentile, in microseconds.
        reason: Why it is wrong or failed, or why the fastest one was not chosen.
    """

    backend: str
    status: str
    microseconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        times = "" if self.microseconds is None else f" {self.microseconds:.4g} us ({self.p20:.4g}-{self.p80:.4g})"
        return f"{self.backend}: {self.status}{times}" + (f", {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Tuning:
    """The backend that was chosen for the calls of one operator on arrays of these types.

    Attributes:
        question: The calls that it counts for.
        platform: The platform of the arrays.
        device_kind: The kind of device that the times are from. On other kinds the choice does not count.
        backend: The choice: ``"backend"`` or ``"backend:configuration"``.
        compared_with: The backend whose results the others had to agree with: ``"jnp"``, or the first registered one.
        trials: One for each candidate, in order of registration, in the process that timed them; elsewhere none.
    """

    question: Question
    platform: str
    device_kind: str
    backend: str
    compared_with: str = field(default="", compare=False)
    trials: tuple[Trial, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        head = f"{self.question} on {self.platform} ({self.device_kind}): {self.backend}"
        compared = f", compared with {self.compared_with}" if self.trials else ""
        return "\n".join([head + compared, *(f"  {trial}" for trial in self.trials)])

    @property
    def counts_here(self) -> bool:
        """Whether the first device of its platform is of its kind. Without such a device, programs are exported."""
        try:
            return bool(jax.devices(self.platform)[0].device_kind == self.device_kind)
        except RuntimeError:
            return True


def winners(question: Question, tunings: Iterable[Tuning]) -> dict[str, str]:
    """The backend that counts for a call, by platform: the first one that fits."""
    found: dict[str, str] = {}
    for each in tunings:
        if each.question == question and each.counts_here:
            found.setdefault(each.platform, each.backend)
    return found


in_force = jax.make_user_context(())
"""The tunings of the surrounding :class:`Choices`, those of the innermost first. They are in the keys of JAX's caches,
so that no program is used under other choices than its own."""


_thread = threading.local()
"""Has the contexts that a thread is in."""


@dataclass(frozen=True)
class Choices:
    """The backends that :func:`bridge.tune` has chosen for the calls of operators.

    In ``with choices:``, calls of these operators that name no backend use them, if shapes, dtypes and parameters are
    the same. A ``jax.jit`` function that is called in the block is compiled for it, and outside of it as before.
    Blocks nest: for a call that several choices fit, the innermost one counts.

    Attributes:
        tunings: The choice for each kind of call.
    """

    tunings: tuple[Tuning, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.tunings))

    def __enter__(self) -> Self:
        context = in_force((*self.tunings, *in_force.value))
        context.__enter__()
        vars(_thread).setdefault("contexts", []).append(context)
        return self

    def __exit__(self, *exception: object) -> None:
        _thread.contexts.pop().__exit__(*exception)

    def dumps(self) -> str:
        """The choices as JSON, to keep in a file. Times are left out, so equal choices are equal text."""
        rows = [
            asdict(each.question)
            | {"parameters": dict(each.question.parameters)}
            | {name: getattr(each, name) for name in ("platform", "device_kind", "backend")}
            for each in self.tunings
        ]
        return json.dumps({"choices": rows}, indent=2) + "\n"

    @classmethod
    def loads(cls, text: str) -> Choices:
        """Reads what :meth:`dumps` returned.

        A choice counts where an operator of its name is called on arrays of its types, and the first device of its
        platform is of its kind; else it does nothing. If the operator lacks the backend, the call raises a
        :class:`bridge.BackendError`.

        Raises:
            SignatureError: The text is malformed.
        """
        tunings = []
        try:
            for row in json.loads(text)["choices"]:
                types = tuple(row["arguments"]), tuple(row["results"])
                question = Question(row["operator"], *types, tuple(sorted(row["parameters"].items())))
                tunings.append(Tuning(question, row["platform"], row["device_kind"], row["backend"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SignatureError(
                f"Choices.loads got {str(text)[:40]!r}, expected the text that Choices.dumps returns "
                f"({type(error).__name__}: {error}). Tune again, and keep what dumps returns."
            ) from None
        return cls(tuple(tunings))
