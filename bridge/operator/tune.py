"""Defines :func:`tune`, which finds the calls of operators in a function and chooses a backend for each of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from bridge.debug.agreement import check_rtol
from bridge.errors import BackendError, SignatureError
from bridge.operator.choices import Choices, Question, Tuning
from bridge.operator.operator_call import OperatorCall
from bridge.operator.registry import Snapshot
from bridge.operator.tuning import measured


def _batch(call: OperatorCall) -> int:
    return math.prod(extent for extent, _ in call.batches)


searching = jax.make_user_context(None)
"""Notes a call for the surrounding :func:`tune`. Each has a function of its own, so that JAX traces all anew for it."""


def tune(function: Callable[..., Any], *args: Any, rtol: float | None = None) -> Choices:
    """Chooses the fastest right backend for each call of an operator that runs in a function.

    The function runs once, and the arrays that reach the operators are copied. Then each operator is timed on them, as
    :meth:`bridge.XLACustomKernel.tune` does. Of a call in a loop, the arrays of the first turn count; of calls that
    differ in their ``jax.vmap`` only, those of the largest batch; under ``jax.shard_map`` and on Explicit meshes, those
    of one device. A call that names its backend, or does not run with these arguments, as in the other branch of
    ``jax.lax.cond``, is left alone. A call outside of ``with choices:`` is not affected.

    JAX copies the arrays to a CPU device: where ``JAX_PLATFORMS`` is set, it has to list ``cpu``, as in ``cuda,cpu``.

    All processes of ``jax.distributed`` call this together, as they call the function. Process 0 times, and all get its
    choices. If it cannot choose, all raise.

    Example::

        choices = bridge.tune(train_step, parameters, batch)
        print(choices)
        Path("choices.json").write_text(choices.dumps())
        with choices:
            parameters = jax.jit(train_step)(parameters, batch)

    Args:
        function: Calls operators, in any JAX transformation.
        *args: Its arguments.
        rtol: As for :meth:`bridge.XLACustomKernel.tune`.

    Raises:
        BackendError: As by :meth:`bridge.XLACustomKernel.tune`.
        SignatureError: No call of an operator ran. What the function raises itself passes through.
    """
    check_rtol(rtol, "tune")
    if not callable(function):
        raise SignatureError(f"tune got {function!r}, expected a function that calls operators, and its arguments.")
    noted: dict[Question, tuple[Snapshot, OperatorCall, jax.Device, list[Any]]] = {}

    def note(snapshot: Snapshot, question: Question, call: OperatorCall, platform: str, *args: Any) -> None:
        """Keeps the first call for each question, of those with the largest batch."""
        if question not in noted or _batch(call) > _batch(noted[question][1]):
            device = jax.local_devices(backend=platform)[0]
            noted[question] = snapshot, replace(call, note=None), device, [np.array(arg) for arg in args]

    with searching(note):
        jax.block_until_ready(function(*args))
        jax.effects_barrier()
    found = noted.copy()
    noted.clear()  # JAX's caches keep the function
    if not found:
        raise SignatureError(
            f"tune found no call of an operator that ran in {getattr(function, '__name__', function)}, expected a "
            "function that calls one without backend=. Call tune with arrays, outside of jax.jit, and do not give it a "
            "compiled program."
        )
    return Choices(settled(lambda: tuple(measured(question, *each, rtol=rtol) for question, each in found.items())))


def settled(choose: Callable[[], tuple[Tuning, ...]]) -> tuple[Tuning, ...]:
    """What a function chooses in process 0, in all processes. If it raises there, all processes raise.

    Raises:
        BackendError: It raised in process 0.
    """
    if jax.process_count() == 1:
        return choose()
    made: tuple[Tuning, ...] = ()
    failure: Exception | None = None
    if jax.process_index() == 0:
        try:
            made = choose()
        except Exception as error:
            failure = error
    text, reason = json.loads(_from_first(json.dumps([Choices(made).dumps(), failure and str(failure)])))
    if failure is not None:
        raise failure
    if reason is not None:
        raise BackendError(f"process 0 could not tune: {reason}")
    return made or Choices.loads(text).tunings


def _from_first(text: str) -> str:
    """The text of process 0."""
    from jax.experimental import multihost_utils

    content = np.frombuffer(text.encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(content.size)))
    content = multihost_utils.broadcast_one_to_all(np.resize(content, size))
    return bytes(content.astype(np.uint8)).decode()
