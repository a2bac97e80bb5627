"""Defines what a kernel language is, and exports the names that a new language needs.

A native language subclasses :class:`NativeLanguage`. Its kernels are a subclass of :class:`Definition`, which it keeps
in :data:`DEFINITIONS`. It compiles them to a :class:`Compiled`, which loads a plan: what native code runs. Its public
wrapper calls :func:`wrap`.
"""

from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.ffi.plans.host import HostPlan
from bridge.kernel.arguments import ArrayType, Signature
from bridge.kernel.definitions import DEFINITIONS, Definitions
from bridge.kernel.language import Compiled, Definition, NativeLanguage, NoOptions
from bridge.kernel.wrapper import wrap
from bridge.table import Language, Standing

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
