"""Names of Python's own modules that begin with an underscore, although Python documents them."""

from __future__ import annotations

import ctypes
from typing import Any

C_FUNCTION: Any = ctypes._CFuncPtr  # type: ignore[attr-defined]
"""The base of the types of C functions. Unnecessary if :mod:`ctypes` said what is a function."""

C_POINTER: Any = ctypes._Pointer
"""The base of the types of typed pointers."""

C_NUMBER: Any = ctypes._SimpleCData
"""The base of the types of numbers in C."""
