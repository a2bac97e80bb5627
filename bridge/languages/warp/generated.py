"""Generates the C++ of one Warp kernel, apart from the other kernels of its module.

Warp compiles the kernels of a module together, and compiles the module again when one of them changes. The bridge
compiles each kernel in a module of its own, named for what Warp generates. So no later definition, setting or launch
changes or unloads the machine code of a program.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import warp as wp

from bridge.languages.warp.declared_uses import declared_use
from bridge.languages.warp.dtypes import LOCK
from bridge.languages.warp.instances import withdraw
from bridge.languages.warp.parameters import is_array
from bridge.languages.warp.refusals import failed, refused
from bridge.languages.warp.settings import block_dim_on, settings_of
from bridge.languages.warp.supported import internals
from bridge.languages.warp.uses import Uses, uses_of


@dataclass(frozen=True, eq=False)
class Generated:
    """A kernel with the C++ that Warp generates from it for one platform.

    Attributes:
        kernel: A copy of the user's kernel, in a module of its own.
        source: The C++.
        digest: Identifies the machine code: equal in every process for equal code that is compiled in the same way.
        opaque: Names of the functions in the source that their user wrote in C++.
        declared: How some of them use arrays, by name, see :mod:`bridge.languages.warp.declared_uses`.
    """

    kernel: wp.Kernel
    source: str = field(repr=False)
    digest: str
    opaque: frozenset[str]
    declared: Mapping[str, str]

    def uses(self, *, backward: bool) -> Uses:
        """What the kernel, or its adjoint, does with the memory of its arrays."""
        names = [argument.label for argument in self.kernel.adj.args if is_array(argument.type)]
        return uses_of(self.source, names, self.opaque, self.declared, backward=backward)


def generated(kernel: wp.Kernel, platform: str, block_dim: int | None) -> Generated:
    """Generates the C++ of a kernel, with the present values of everything that it refers to. Compiles nothing.

    Args:
        kernel: A kernel that is not generic.
        platform: JAX's name of the platform.
        block_dim: Threads of a block; None for Warp's default.

    Raises:
        KernelCompileError: Warp cannot generate code, or cannot evaluate a value that the kernel refers to.
    """
    wp.init()
    threads = block_dim_on(platform, block_dim)
    with generating():
        module = internals().Module("bridge", None)
        module.options = {**kernel.module.options, "block_dim": threads, "strip_hash": False}
        if platform == "cuda" and module.options.get("default_grid_stride", True) is None:
            # Warp's launcher can start fewer blocks than a kernel needs, so by default each loops over the grid. The
            # bridge starts all blocks. Without the loop plain kernels take 0.95 to 0.98 times as long on an H200.
            module.options["default_grid_stride"] = False
        private = _in_module(kernel, module)
        try:
            settings = settings_of(private)
            # Without an architecture, Warp compiles no code that tile functions are linked with.
            options = {**module.resolve_options(wp.config), "output_arch": None, "block_dim": threads}
            builder = internals().ModuleBuilder(module, options)
            source = str(builder.codegen(platform))
            content = _content(source, private, [function.native_func for function in builder.functions])
        except Exception as error:
            withdraw(kernel)
            raise refused(kernel, error) from error
        own = [function for function in builder.functions if function.native_snippet is not None]
        opaque = frozenset(function.native_func for function in own)
        declared = {function.native_func: use for function in own if (use := declared_use(function)) is not None}
    identity = hashlib.sha256()
    for part in (wp.__version__, platform, str(threads), *settings, content):
        identity.update(len(part).to_bytes(8, "little") + part.encode("utf-8", "surrogatepass"))
    digest = identity.hexdigest()
    module.name = f"bridge_{re.sub(r'[^A-Za-z0-9_]', '_', kernel.key)[:_NAME_CHARACTERS]}_{digest}"
    return Generated(private, source, digest, opaque, declared)


_NAME_CHARACTERS = 40  # of a kernel's name, in the name of a folder


@contextlib.contextmanager
def generating() -> Iterator[None]:
    """Keeps other threads from generating code: Warp keeps the state of it in the functions that a kernel calls."""
    with LOCK, getattr(internals(), "_codegen_lock", None) or contextlib.nullcontext():
        yield


def loadable(made: Generated) -> wp.Kernel:
    """The kernel in the one module of this process that has its machine code, for Warp to launch.

    The caller holds :func:`generating`, and calls :func:`settle` when the kernel is loaded.
    """
    return _in_module(made.kernel, _modules.setdefault(made.digest, made.kernel.module))


def settle(made: Generated, kernel: wp.Kernel, platform: str, block_dim: int | None) -> None:
    """Checks that a newly loaded kernel is the one that was generated, and keeps nothing of it but the machine code.

    Warp generates the code again when it compiles. Another thread may have changed what the code depends on.

    Raises:
        KernelCompileError: The code has changed.
    """
    module = kernel.module
    folder = Path(str(wp.config.kernel_cache_dir)) / module.get_module_identifier(block_dim_on(platform, block_dim))
    module.mark_modified()
    module._live_kernels.clear()
    if generated(made.kernel, platform, block_dim).digest != made.digest:
        del _modules[made.digest]
        shutil.rmtree(folder, ignore_errors=True)
        raise failed(kernel, "its code, or a setting of Warp, changed while it was compiled. Call it again.")


_modules: dict[str, wp.Module] = {}
"""The modules with machine code, by its digest. They stay, because the programs that call the code stay."""


def _in_module(kernel: wp.Kernel, module: wp.Module) -> wp.Kernel:
    """A copy of a kernel as the only one of a module. It has the syntax tree and the static values of the original."""
    private = copy.copy(kernel)
    private.module, private.overloads = module, {}
    module._live_kernels.clear()
    module._live_kernels.add(private)
    module.mark_modified()
    return private


def _content(source: str, kernel: wp.Kernel, functions: Sequence[str]) -> str:
    """The source without what differs between equal kernels: generated names, and places in the user's files.

    Warp names a kernel by a hash of its text, and a function by the number of functions of its name before it.
    """
    lines = (line for line in source.splitlines() if not line.lstrip().startswith(("//", "#line")))
    content = "\n".join(lines).replace(kernel.get_mangled_name(), kernel.key)
    if not functions:
        return content
    numbers = {name: str(number) for number, name in enumerate(functions)}
    names = re.compile(rf"\b(adj_)?({'|'.join(map(re.escape, numbers))})\b")
    return names.sub(lambda match: f"{match[1] or ''}{match[2].rstrip('0123456789')}{numbers[match[2]]}", content)
