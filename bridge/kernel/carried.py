"""Puts the machine code of a kernel into an exported program, and loads it in a process that lacks the kernel."""

from __future__ import annotations

import base64
import importlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import msgspec

from bridge.errors import BridgeError, SignatureError
from bridge.ffi.native.addresses import Arrays

FORMAT = 1
"""Changes whenever a program of an earlier version could not be read, or would run wrong."""


class Carried(msgspec.Struct, frozen=True):
    """The machine code of one call.

    Attributes:
        kind: Names the module that loads it, in :data:`_LOADERS`; empty if the program has no code.
        content: What this module reads; without code, why there is none.
        name: The kernel.
        inputs: Rank and bytes of an element of each input.
        outputs: The same of each output, hidden ones included.
        format: The :data:`FORMAT` of the version that wrote it.
    """

    kind: str
    content: bytes
    name: str
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    format: int = FORMAT

    def text(self) -> str:
        """The attribute of a call that holds the code."""
        return base64.b64encode(zlib.compress(msgspec.msgpack.encode(self))).decode()

    @classmethod
    def of(cls, text: str) -> Carried:
        """Reads :meth:`text`.

        Raises:
            BridgeError: Another version of kernel-bridge wrote it.
        """
        content = zlib.decompress(base64.b64decode(text))
        version = msgspec.msgpack.decode(content)["format"]
        if version != FORMAT:
            raise BridgeError(
                f"this program holds machine code in format {version}, and this version of kernel-bridge reads format "
                f"{FORMAT}. Export it with the version that runs it."
            )
        return msgspec.msgpack.decode(content, type=cls)

    def load(self) -> tuple[int, Any]:
        """Loads the code, for the life of the process.

        Returns:
            The address of the plan, and what it refers to.

        Raises:
            BridgeError: It is for another processor or GPU.
        """
        plan = importlib.import_module(_LOADERS[self.kind]).plan_of(self.name, self.content)
        return plan.keep(Arrays(self.name, self.inputs, self.outputs)), plan.alive


_LOADERS = {
    "numba": "bridge.languages.numba.carried_object",
    "warp": "bridge.languages.warp.operations",
    "cubins": "bridge.cuda.carried_cubins",
}
"""Modules with a function ``plan_of(name, content)``, which returns the plan that runs the code."""

_asked = jax.make_user_context(())


@contextmanager
def export_for(*chips: str) -> Iterator[None]:
    """Makes the programs that are exported in this context hold machine code for these GPUs.

    Without it, an exported program holds the code for the GPUs of this process. This machine needs none of ``chips``.
    A GPU also runs the code for an earlier one of its generation: of ``sm_80`` on ``sm_86``, not of ``sm_90`` on
    ``sm_100``.

    Args:
        chips: Architectures, such as ``"sm_90"``.

    Raises:
        SignatureError: One of them is no architecture.
    """
    for chip in chips:
        if not (isinstance(chip, str) and chip.startswith("sm_") and chip[3:].isdigit()):
            raise SignatureError(f"export_for got {chip!r}, expected architectures of GPUs, such as 'sm_90'.")
    with _asked(tuple(int(chip[3:]) for chip in chips)):
        yield


def capabilities(present: Sequence[int]) -> tuple[int, ...]:
    """The compute capabilities that an exported program gets code for, of those that are present by default."""
    asked: tuple[int, ...] = _asked.value
    return asked or tuple(dict.fromkeys(present))
