"""Reads what Triton does not promise to keep: its IR of a kernel, the driver that it asks for the GPU, its PTX.

- `_C.libtriton.ir, ASTSource.make_ir, load_dialects, get_codegen_implementation, get_module_map`: Give the IR of a
  kernel (`str_nodebug`), which identifies it. A public function would do.
- `ASTSource.hash`: Ours follows from the IR. Unnecessary once Triton's key tells apart tuples of functions.
- `_active`: Code that asks for the chip gets the one it is compiled for. A public way to set a target would do.
- `.entry in PTX`: Scratch pointers are the last parameters. A public list of a kernel's parameters would do.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bridge.compat.library import Library, reasons

LIBRARY = Library("triton", "3.6", "3.9", reasons(__doc__))


@functools.cache
def _ir() -> Any:
    """Triton's module of its IR.

    Raises:
        AbiError: It makes the IR in another way.
    """
    import triton.compiler

    takes = list(inspect.signature(LIBRARY.get(triton.compiler, "ASTSource.make_ir")).parameters)
    if takes != ["self", "target", "options", "codegen_fns", "module_map", "context"]:
        raise LIBRARY.changed(f"ASTSource.make_ir takes {', '.join(takes)}")
    return LIBRARY.get(importlib.import_module("triton"), "_C.libtriton.ir")


def _backend(target: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Triton's backend for a chip, its options, and the functions that make code of its own."""
    import triton.compiler

    backend = triton.compiler.make_backend(target)
    parsed = backend.parse_options(dict(options))
    return backend, parsed, LIBRARY.get(backend, "get_codegen_implementation")(parsed)


def view_of(target: Any, options: dict[str, Any]) -> Any:
    """What Triton's options and functions make of a chip: equal for chips that they do not tell apart."""
    _, parsed, functions = _backend(target, options)
    return repr(replace(parsed, arch=None)), *(function.__name__ for function in functions.values())


def ir_of(source: Any, target: Any, options: dict[str, Any]) -> tuple[str, bool]:
    """The hash of the options and Triton's IR of a kernel for a chip, and whether the kernel asked for the chip."""
    ir, (backend, parsed, functions) = _ir(), _backend(target, options)
    context = ir.context()
    ir.load_dialects(context)
    LIBRARY.get(backend, "load_dialects")(context)
    with current(target) as asked:
        module = source.make_ir(target, parsed, functions, LIBRARY.get(backend, "get_module_map")(), context)
    return repr((parsed.hash(), LIBRARY.get(module, "str_nodebug")())), bool(asked)


def source_of(kernel: Any, types: dict[str, str], constants: dict[str, Any], attributes: Any, key: str = "") -> Any:
    """A kernel for parameters of these types, as Triton compiles it and keeps it by a key."""
    import triton.compiler

    class Source(triton.compiler.ASTSource):  # type: ignore[misc]
        def hash(self) -> str:
            return key

    return Source(kernel, types, constants, attributes)


def scratch_pointers(compiled: Any, taken: int) -> int:
    """How many parameters a compiled kernel has after those that it takes: pointers to scratch memory.

    Raises:
        AbiError: Its PTX has no such kernel, or fewer parameters.
    """
    name = compiled.metadata.name
    head = re.search(rf"\.entry {re.escape(name)}\((.*?)\)", compiled.asm["ptx"], re.DOTALL)
    count = head[1].count(".param") if head else 0
    if count < taken:
        raise LIBRARY.changed(f"the PTX of {name} has {count} parameters, expected {taken} or more")
    return count - taken


_LOCK = threading.Lock()


@contextlib.contextmanager
def current(target: Any) -> Iterator[list[Any]]:
    """Kernels that ask for the chip (``tl.target_info``) get this one, and are noted in the list that it yields.

    They ask Triton's driver for the GPU in use, which is unknown without PyTorch or a GPU. Other threads get what they
    got before.
    """
    from triton.runtime.driver import driver

    thread, asked = threading.get_ident(), list[Any]()
    with _LOCK:
        # The public ``driver.active`` would import PyTorch. None is Triton's own choice.
        before = LIBRARY.get(driver, "_active")

        class Driver:
            def get_current_target(self) -> Any:
                if threading.get_ident() != thread:
                    return self.__getattr__("get_current_target")()
                asked.append(target)
                return target

            def __getattr__(self, name: str) -> Any:
                return getattr(driver.default if before is None else before, name)

        driver.set_active(Driver())
        try:
            yield asked
        finally:
            driver.set_active(before)
