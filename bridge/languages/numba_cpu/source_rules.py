"""Tells the proof of :mod:`bridge.source.element_wise` about the code that Numba compiles for the CPU."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from bridge.source.language_rules import LanguageRules, Source
from bridge.source.meanings import LinkedMeanings
from bridge.source.numba_notes import is_noted


def source_of(dispatcher: CPUDispatcher) -> Source | None:
    """The source of a kernel or function; None if Numba does not compile it as it stands.

    Types of local variables convert values, functions that are inlined are not linked, and a compiler of the user's may
    do anything.
    """
    options = dispatcher.targetoptions
    is_plain = (
        not dispatcher.locals
        and options.get("inline", "never") == "never"
        and dispatcher._compiler.pipeline_class is Compiler
    )
    return Source(dispatcher.py_func, bool(options.get("parallel"))) if is_plain else None


def follow(value: Any) -> Source | None:
    """The source of a function that a kernel calls. One with explicit signatures converts its arguments."""
    return source_of(value) if isinstance(value, CPUDispatcher) and value._can_compile else None


def rules_of(compiled: Any) -> LanguageRules:
    """What Numba makes of the source of a kernel.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel.
    """
    meanings = LinkedMeanings(compiled.library, is_known=lambda library: library is rtsys.library or is_noted(library))
    return LanguageRules(follow=follow, meanings=meanings.of)
