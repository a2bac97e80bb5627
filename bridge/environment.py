"""Says in every call whether an environment variable is set, at little cost."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any


def _table() -> tuple[Container[Any], Any]:
    """The table of ``os.environ`` and the function that encodes a name for it, where they are as in CPython."""
    table, encode = getattr(os.environ, "_data", None), getattr(os.environ, "encodekey", None)
    return (table, encode) if isinstance(table, dict) and callable(encode) else (os.environ, str)


VARIABLES, encoded = _table()
"""``encoded(name) in VARIABLES`` says whether a variable is set now.

``os.environ`` encodes the name anew for each look-up, which takes a tenth of a call of a compiled program. So callers
encode it once.
"""
