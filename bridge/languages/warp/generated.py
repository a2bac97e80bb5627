"""Generates the C++ of one Warp kernel, apart from the other kernels of its module.

Warp compiles the kernels of a module together, and compiles the module again when one of them changes. The bridge
compiles each kernel in a module of its own, named for what Warp generates. So no later definition, setting or launch
changes or unloads the machine code of a program.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import warp as wp

from bridge.compat.warp import codegen_lock, internals, is_array, keep_only
from bridge.errors import KernelCompileError, SignatureError
from bridge.kernel.arguments import Signature
from bridge.kernel.references import array_hint
from bridge.languages.warp.dtypes import LOCK, element_type
from bridge.languages.warp.inputs import Uses, declared_writes, only_read, uses_of
from bridge.languages.warp.launches import WarpLaunch
from bridge.languages.warp.settings import block_dim_on, settings_of


@dataclass(frozen=True, eq=False)
class Generated:
    """A kernel with the C++ that Warp generates from it for one platform.

    Attributes:
        kernel: A copy of the user's kernel, in a module of its own.
        source: The C++.
        digest: Identifies the machine code: equal in every process for equal code that is compiled in the same way.
        threads: Threads of a block.
        native: The functions in the source that their user wrote in C++, with the positions of the arguments that each
            was declared to write to, see :mod:`bridge.languages.warp.inputs`.
    """

    kernel: wp.Kernel
    source: str = field(repr=False)
    digest: str
    threads: int
    native: Mapping[str, frozenset[int] | None]

    @functools.cached_property
    def code(self) -> str:
        """The source without comments."""
        return "\n".join(line for line in self.source.splitlines() if not line.lstrip().startswith("//"))

    def uses(self, *, backward: bool) -> dict[str, Uses]:
        """What the kernel, or its adjoint, does with the memory of each of its arrays."""
        names = [argument.label for argument in self.kernel.adj.args if is_array(argument.type)]
        return uses_of(self.source, names, self.native, backward=backward)


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
            raise refused(kernel, error) from error
        native = {f.native_func: declared_writes(f) for f in builder.functions if f.native_snippet is not None}
    identity = hashlib.sha256()
    for part in (wp.__version__, platform, str(threads), *settings, content):
        identity.update(len(part).to_bytes(8, "little") + part.encode("utf-8", "surrogatepass"))
    digest = identity.hexdigest()
    module.name = f"bridge_{re.sub(r'[^A-Za-z0-9_]', '_', kernel.key)[:_NAME_CHARACTERS]}_{digest}"
    return Generated(private, source, digest, threads, native)


_NAME_CHARACTERS = 40  # of a kernel's name, in the name of a folder


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


@contextlib.contextmanager
def generating() -> Iterator[None]:
    """Keeps other threads from generating code: Warp keeps the state of it in the functions that a kernel calls."""
    with LOCK, codegen_lock():
        yield


def loadable(made: Generated) -> wp.Kernel:
    """The kernel in the one module of this process that has its machine code, for Warp to launch.

    The caller holds :func:`generating`, and calls :func:`settle` when the kernel is loaded.
    """
    return _in_module(made.kernel, _modules.setdefault(made.digest, made.kernel.module))


def settle(kernel: wp.Kernel) -> None:
    """Keeps nothing of a newly loaded kernel but the machine code."""
    keep_only(kernel.module)


_modules: dict[str, wp.Module] = {}
"""The modules with machine code, by its digest. They stay, because the programs that call the code stay."""


def _in_module(kernel: wp.Kernel, module: wp.Module) -> wp.Kernel:
    """A copy of a kernel as the only one of a module. It has the syntax tree and the static values of the original."""
    private = copy.copy(kernel)
    private.module, private.overloads = module, {}
    keep_only(module, private)
    return private


def check_inputs(made: Generated, launch: WarpLaunch, signature: Signature) -> None:
    """Checks that the code to run does not write to an input of which it gets no copy.

    Raises:
        KernelCompileError: It may, because it is not the code that the call was traced with.
    """
    uses = made.uses(backward=launch.backward)
    for argument, declared in zip(launch.arguments, made.kernel.adj.args, strict=True):
        is_input = argument.shape is not None and argument.buffer < len(signature.inputs)
        if is_input and not signature.inputs[argument.buffer].writable and not only_read(uses[declared.label]):
            raise KernelCompileError(
                f"{made.kernel.key} may write to {declared.label!r}, which its code did not when the call was traced: "
                "a function, constant or setting has changed since. Trace the call again."
            )


def takes_handle(made: Generated) -> bool:
    """Whether the code of a kernel uses a mesh, BVH, hash grid, volume or texture, which belongs to this process."""
    return re.search(r"\bwp::(mesh|bvh|hash_grid|volume|texture)_\w+\(", made.code) is not None


def has_adjoint(kernel: wp.Kernel) -> bool:
    """Whether Warp generates the adjoint of a kernel."""
    options = {**kernel.module.options, **kernel.options}
    return bool(options.get("enable_backward", True))


def instantiated(kernel: wp.Kernel, types: Sequence[tuple[int | None, str, tuple[int, ...]]]) -> wp.Kernel:
    """The kernel itself, or the instance of a generic one.

    Args:
        kernel: The kernel.
        types: For each parameter its dimensions (None for a value), scalar dtype, and the shape of its elements.

    Raises:
        SignatureError: The kernel does not take these types.
    """
    if not kernel.is_generic:
        return kernel
    elements = [(ndim, element_type(dtype, inner)) for ndim, dtype, inner in types]
    with LOCK:
        try:
            return wp.overload(kernel, [e if ndim is None else wp.array(dtype=e, ndim=ndim) for ndim, e in elements])
        except TypeError as error:
            raise SignatureError(f"{error}. Convert the array, or annotate the kernel with Any.") from error


def failed(kernel: wp.Kernel, why: str) -> KernelCompileError:
    """The error for a kernel that Warp cannot compile."""
    return KernelCompileError(f"Warp cannot compile {kernel.key} ({_place(kernel)}): {why}")


def refused(kernel: wp.Kernel, error: Exception) -> KernelCompileError:
    """The error for a kernel that Warp refuses with ``error``, which names a JAX array if the kernel uses one."""
    # A kernel may use an array in wp.static(...), which Python evaluates.
    hint = array_hint(kernel.func) if "jax" in str(error) else ""
    return failed(kernel, f"{type(error).__name__}: {error}{hint}")


def _place(kernel: wp.Kernel) -> str:
    code = kernel.func.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
