"""Gathers the kernel languages, one file or folder for each, and exports the names that a new language needs.

A native language subclasses :class:`NativeLanguage`. Its kernels are a subclass of :class:`Definition`, which it keeps
in :data:`DEFINITIONS`. It compiles them to a :class:`Compiled`, which loads a plan: what native code runs. Its public
wrapper calls :func:`wrap`.
"""

from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.ffi.plans.host import HostPlan
from bridge.languages.definitions import DEFINITIONS, Definitions
from bridge.languages.language import Compiled, Definition, Language, NativeLanguage, NoOptions, Standing
from bridge.languages.wrapper import wrap
from bridge.signature.array_types import ArrayType, Signature

__all__ = [
    "DEFINITIONS",
    "ArrayType",
    "Compiled",
    "Definition",
    "Definitions",
    "DevicePlan",
    "HostPlan",
    "Language",
    "Launch",
    "NativeLanguage",
    "NoOptions",
    "Patch",
    "Signature",
    "Standing",
    "wrap",
]
