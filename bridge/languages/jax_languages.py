"""Describes the languages that users call through JAX: plain JAX code, Pallas (compiled or interpreted) and Triton."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from bridge.languages.language import Language, Standing


def _adapted(generator: Callable[..., Any], platform: str) -> Callable[..., Any]:
    """The generator with ``interpret`` set if it takes that parameter: True on the CPU, where Pallas cannot compile."""
    if not callable(generator):
        return generator
    parameters = inspect.signature(generator).parameters
    if "interpret" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return functools.partial(generator, interpret=platform == "cpu")
    return generator


JNP = Language("jnp", dict.fromkeys(("cpu", "cuda", "tpu"), Standing.REFERENCE))
"""The reference that kernels of other languages are compared with."""

TRITON = Language("triton", {"cuda": Standing.REGULAR})
"""Called through :func:`bridge.triton_kernel`, or ``jax_triton``."""

PALLAS = Language(
    "pallas",
    {"cpu": Standing.INTERPRETED, "cuda": Standing.REGULAR, "tpu": Standing.REGULAR},
    adapted=_adapted,
)
