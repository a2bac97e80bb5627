"""Reads what cuTile does not promise to keep: the parameters and options of a kernel, and its IR as text.

- `_annotated_function`: Has a kernel's function and parameters. Public attributes would do.
- `_compiler_options`: Are part of the identity of the machine code. A public attribute would do.
- `_bytecode_to_mlir_text, _find_tileirdisasm_bin`: Print the IR, which identifies a kernel. A public one would do.
- `cutile_python_v2`: An array is an address, extents and strides in the index type. A public description would do.
"""

from __future__ import annotations

from typing import Any

from bridge.compat.library import Library, reasons

LIBRARY = Library("cuda-tile", "1.7", "1.7", reasons(__doc__))


def annotated(kernel: Any) -> Any:
    """The function of a kernel (``pyfunc``), its signature (``pysig``), and its ``parameter_annotations``."""
    function = LIBRARY.get(kernel, "_annotated_function")
    for name in ("pyfunc", "pysig.parameters", "parameter_annotations"):
        LIBRARY.get(function, name)
    return function


def compiler_options(kernel: Any) -> str:
    """The options that a kernel is compiled with, as text."""
    return repr(LIBRARY.get(kernel, "_compiler_options"))


def find_printer() -> None:
    """Looks for the program that prints the IR.

    Raises:
        OSError: It is not installed.
    """
    import cuda.tile._compile as module

    LIBRARY.get(module, "_find_tileirdisasm_bin")()


def text_of(bytecode: bytes) -> str:
    """The IR of a kernel as text."""
    import cuda.tile._compile as module

    text: str = LIBRARY.get(module, "_bytecode_to_mlir_text")(bytecode)
    return text
