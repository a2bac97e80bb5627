"""Keeps the compiled programs of an operator's eager calls, so that a repeated call costs little more than ``jax.jit``.

A program is a ``jax.jit`` function of the arrays only. It compiles anew for other shapes and dtypes. So its key holds
all else that a call depends on. A call that this module cannot judge at a glance has no key, and takes the long way.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping
from struct import pack
from typing import Any

import jax
import numpy as np

from bridge.debug import mode
from bridge.debug.mode import current_mode, operator_mode
from bridge.environment import VARIABLES, encoded
from bridge.operator.call.declared import Rules
from bridge.operator.choice import preference
from bridge.operator.choice.candidates import candidates
from bridge.operator.choice.preference import NOTHING, preferred, preferred_backends
from bridge.operator.choice.registry import Snapshot
from bridge.operator.static_parameters import Parameters

Program = Callable[..., Any]
"""Runs an operator on arrays."""

KEPT = 1024
"""Programs of one operator that are kept: the latest ones."""

_SIMPLE = frozenset({bool, int, str, bytes, type(None)})
"""Types whose equal values are alike."""

_NUMBERS = frozenset("?biufc")

DEBUG, BACKEND = encoded(mode.VARIABLE), encoded(preference.VARIABLE)
"""The names of environment variables, for :data:`bridge.environment.VARIABLES`."""

PLAIN = (None, NOTHING)
"""The key of the commonest call: it passes arrays only, and no backend is preferred."""

concrete: set[type] = set()
"""The types of JAX's arrays that hold values. JAX does not name them in public, so calls add them here."""


def note_concrete(args: tuple[Any, ...]) -> bool:
    """Notes the types of JAX's arrays that hold values. Returns whether one of them is new."""
    arrays = (arg for arg in args if isinstance(arg, jax.Array) and not isinstance(arg, jax.core.Tracer))
    new = set(map(type, arrays)) - concrete
    concrete.update(new)
    return bool(new)


def key_of(args: tuple[Any, ...], outs: Any, backend: str | None, parameters: Mapping[str, Any]) -> Hashable | None:
    """Everything that an eager call depends on, besides the operator and the types of its arrays.

    None for a call that has to take the long way: an argument is no plain array of numbers, ``outs`` is no
    ``jax.ShapeDtypeStruct`` or sequence of them, a parameter is not hashable, or a debug mode is in force.
    """
    for arg in args:
        if type(arg) not in concrete and not (type(arg) is np.ndarray and arg.dtype.kind in _NUMBERS):
            return None
    if operator_mode.get() is not None or (DEBUG in VARIABLES and current_mode()):
        return None
    if outs is None:
        spec: Any = None
    elif type(outs) is jax.ShapeDtypeStruct:
        spec = (outs.shape, outs.dtype, *map(type, outs.shape))
    elif type(outs) in (list, tuple) and all(type(each) is jax.ShapeDtypeStruct for each in outs):
        spec = (type(outs), *((each.shape, each.dtype, *map(type, each.shape)) for each in outs))
    else:
        return None
    if backend is None:
        names: Any = preferred.get() or (preferred_backends() if BACKEND in VARIABLES else NOTHING)
    elif type(backend) is str:
        names = backend
    else:
        return None
    return (spec, names, _content_of(parameters)) if parameters else (spec, names)


def _content_of(parameters: Mapping[str, Any]) -> Hashable:
    """The parameters as :class:`~bridge.operator.static_parameters.Parameters` tells them apart."""
    content = []
    for name, value in parameters.items():
        kind = type(value)
        if kind in _SIMPLE:
            content.append((name, kind, value))
        elif kind is float:
            content.append((name, kind, pack("=d", value)))  # tells 0.0 from -0.0, and NaN equals NaN
        else:
            return Parameters(parameters)
    return tuple(content)


_shared: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def shared(content: Hashable, make: Callable[[], Program]) -> Program:
    """The program of this content, which is made now if no operator has it: a copy of an operator compiles nothing."""
    with _sharing:
        program: Program | None = _shared.get(content)
        if program is None:
            program = _shared[content] = make()
        return program


def kernels_of(snapshot: Snapshot) -> Hashable:
    """Everything in a snapshot that the choice of a kernel depends on."""
    platforms = sorted(snapshot.kernels)
    return (
        tuple((platform, candidates(snapshot, platform)) for platform in platforms),
        tuple((platform, snapshot.defaults[platform]) for platform in platforms),
    )


class EagerPrograms:
    """The programs of one operator, for one state of its registry, rules and winners. Thread-safe.

    Attributes:
        current: The kernels, the rules and the winners that the programs were made from, and the programs by key. The
            programs count as long as the operator has these very objects: a change replaces them.
        plain: Likewise, with the program of the key :data:`PLAIN`, which a call finds without making a key.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.current: tuple[Any, Any, Any, dict[Hashable, Program]] = (None, None, None, {})
        self.plain: tuple[Any, Any, Any, Program | None] = (None, None, None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return EagerPrograms, ()  # a copy finds the programs by their content

    def add(self, key: Hashable, program: Program, snapshot: Snapshot, rules: Rules, winners: Any) -> None:
        """Keeps a program that was made from these; drops the programs that were made from others."""
        with self._lock:
            *known, programs = self.current
            if any(one is not other for one, other in zip(known, (snapshot, rules, winners), strict=True)):
                programs = {}
                self.current = snapshot, rules, winners, programs
            if len(programs) >= KEPT:
                del programs[next(iter(programs))]
            programs[key] = program
            if key == PLAIN:
                self.plain = snapshot, rules, winners, program
