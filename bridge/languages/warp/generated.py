"""Generates the C++ of one Warp kernel, apart from the other kernels of its module; loads it, and packs its launches.

Warp compiles the kernels of a module together, and compiles the module again when one of them changes. The bridge
compiles each kernel in a module of its own, named for what Warp generates. So no later definition, setting or launch
changes or unloads the machine code of a program.

Warp packs the arguments of a launch itself. It records a launch on arrays at made-up addresses, without running it.
:func:`pack` then reads, from Warp's own ctypes objects, the memory that Warp would have passed to the machine code. The
layout of these objects differs between versions, so every address is checked to lie where it was found.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from bridge.compat.warp import LIBRARY, codegen_lock, internals, is_array, keep_only
from bridge.errors import KernelCompileError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.kernel.arguments import Signature
from bridge.kernel.references import array_hint, place_of
from bridge.languages.warp.inputs import Uses, declared_writes, only_read, uses_of
from bridge.languages.warp.operations import Layout, WarpArgument, WarpLaunch, laid_out
from bridge.languages.warp.parameters import STRUCT, element_type, value_of
from bridge.languages.warp.settings import block_dim_on, settings_of
from bridge.table import LANGUAGES


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
        return uses_of(self.code, names, self.native, backward=backward)


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
    with codegen_lock():
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
    # A folder gets this name.
    module.name = f"bridge_{re.sub(r'[^A-Za-z0-9_]', '_', kernel.key)[:40]}_{digest}"
    return Generated(private, source, digest, threads, native)


def generated_everywhere(kernel: wp.Kernel, block_dim: int | None) -> dict[str, Generated | KernelCompileError]:
    """The code of a kernel by platform, or the error that says why there is none.

    Raises:
        KernelCompileError: There is none for any platform.
    """
    codes: dict[str, Generated | KernelCompileError] = {}
    for platform in LANGUAGES["warp"].platforms:
        try:
            codes[platform] = generated(kernel, platform, block_dim)
        except KernelCompileError as error:  # raised again when the kernel is compiled for this platform
            codes[platform] = refusal = error
    if not any(isinstance(code, Generated) for code in codes.values()):
        raise refusal
    return codes


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


def load(
    made: Generated, device: Any, backward: bool, record: Callable[[wp.Kernel], Any] = lambda kernel: None
) -> tuple[Any, Any, int, Any]:
    """Compiles and loads a kernel for a device, in the one module of this process that has its machine code.

    Args:
        made: The kernel and its code.
        device: Warp's device.
        backward: Load the adjoint.
        record: Called with the kernel that Warp can launch now, and at no other time.

    Returns:
        What keeps the machine code loaded, Warp's facts about it, the address of the kernel or its adjoint, and what
        ``record`` returned.

    Raises:
        KernelCompileError: Warp cannot compile the kernel, or there is no adjoint.
    """
    with codegen_lock():
        kernel = _in_module(made.kernel, _modules.setdefault(made.digest, made.kernel.module))
        try:
            loaded = kernel.module.load(device, made.threads)
            recorded = record(kernel) if loaded else None
        except Exception as error:
            raise refused(kernel, error) from error
        if not loaded:
            raise failed(kernel, "its module failed to build before; see the messages of Warp")
        hooks = loaded.get_kernel_hooks(kernel)
        keep_only(kernel.module)  # nothing of the kernel but the machine code
    entry = ctypes.cast(hooks.backward if backward else hooks.forward, ctypes.c_void_p).value
    if not entry:
        raise failed(kernel, f"there is no code of the {'adjoint' if backward else 'kernel'}")
    return loaded, hooks, entry, recorded


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
    with codegen_lock():
        try:
            return wp.overload(kernel, [e if ndim is None else wp.array(dtype=e, ndim=ndim) for ndim, e in elements])
        except TypeError as error:
            raise SignatureError(f"{error}. Convert the array, or annotate the kernel with Any.") from error


@dataclass(frozen=True)
class PackedLaunch:
    """A launch of loaded machine code.

    Attributes:
        module_exec: Keeps the machine code loaded.
        hooks: Warp's facts about the machine code.
        entry: Address of the machine code: a C function, or a CUDA function handle.
        content: The memory that the machine code gets.
        layout: What is where in it.
        patches: Word of the memory, buffer, and offset in it, of each address to fill in.
    """

    module_exec: Any
    hooks: Any
    entry: int
    content: bytes
    layout: Layout
    patches: Sequence[tuple[int, int, int]]


def pack(made: Generated, launch: WarpLaunch, device: Any) -> PackedLaunch | None:
    """Compiles and loads a kernel for a device, and packs the arguments of a launch; None if it has no threads.

    Args:
        made: The kernel and its code.
        launch: The launch.
        device: Warp's device.

    Raises:
        KernelCompileError: Warp cannot compile the kernel.
        AbiError: This module does not understand Warp's record.
    """
    if 0 in launch.dims:
        return None
    arguments = list(zip(launch.arguments, made.kernel.adj.args, strict=True))
    values = [_value(argument, declared.type, index, device) for index, (argument, declared) in enumerate(arguments)]
    adjoints = [
        _adjoint(argument, declared.type, len(arguments) + index, device)
        for index, (argument, declared) in enumerate(arguments)
    ]

    def record(kernel: wp.Kernel) -> Any:
        return wp.launch(
            kernel,
            dim=launch.dims,
            inputs=values,
            adj_inputs=adjoints if launch.backward else [],
            device=device,
            adjoint=launch.backward,
            record_tape=False,
            record_cmd=True,
            block_dim=made.threads,
        )

    module_exec, hooks, entry, recorded = load(made, device, launch.backward, record)
    try:
        content, layout, patches = _read(made.kernel, launch, recorded)
    except (AttributeError, TypeError, ValueError, ctypes.ArgumentError) as error:
        raise LIBRARY.changed(f"a recorded launch has other contents ({error})") from error
    return PackedLaunch(module_exec, hooks, entry, content, layout, patches)


def _address(index: int) -> int:
    """A made-up address: a multiple of 1 MiB, so no other word looks like one."""
    return (index + 1) << 20


def _value(argument: WarpArgument, annotation: Any, index: int, device: Any) -> Any:
    """The value to pass to ``warp.launch`` for an argument."""
    if argument.shape is not None:
        return wp.array(ptr=_address(index), dtype=annotation.dtype, shape=argument.shape, device=device)
    return value_of(argument.value, argument.dtype, argument.inner, annotation)


def _adjoint(argument: WarpArgument, annotation: Any, index: int, device: Any) -> Any:
    if argument.dtype == STRUCT:  # Warp takes no None for it. What the adjoint adds to this one is dropped.
        return annotation()
    return None if argument.adjoint is None else _value(argument, annotation, index, device)


def _read(kernel: wp.Kernel, launch: WarpLaunch, recorded: Any) -> tuple[bytes, Layout, list[tuple[int, int, int]]]:
    """The memory of a recorded launch, what is where in it, and the patches."""
    bounds, *arguments = recorded.params
    count = len(launch.arguments)
    if len(arguments) != count * (2 if launch.backward else 1):
        raise LIBRARY.changed(f"{kernel.key} has {count} parameters, but its launch {len(arguments)} arguments")
    content, layout = laid_out(bounds, arguments, count)
    patches = []
    for index, (argument, start) in enumerate(zip(arguments, layout.offsets[1:], strict=True)):
        about = launch.arguments[index % count]
        buffer = about.buffer if index < count else about.adjoint
        if about.shape is None or buffer is None:
            continue
        if np.prod(about.shape) and argument.data != _address(index):
            raise LIBRARY.changed(f"argument {index} of {kernel.key} does not hold the address of its array")
        patches.append(((start + type(argument).data.offset) // WORD_BYTES, buffer, 0))
        if index < count and about.adjoint is not None:
            # A store clears the adjoint of the element it overwrites only if the array has the address of its gradient.
            patches.append(((start + type(argument).grad.offset) // WORD_BYTES, about.adjoint, 0))
    return content, layout, patches


def failed(kernel: wp.Kernel, why: str) -> KernelCompileError:
    """The error for a kernel that Warp cannot compile."""
    return KernelCompileError(f"Warp cannot compile {kernel.key} ({place_of(kernel.func)}): {why}")


def refused(kernel: wp.Kernel, error: Exception) -> KernelCompileError:
    """The error for a kernel that Warp refuses with ``error``, which names a JAX array if the kernel uses one."""
    # A kernel may use an array in wp.static(...), which Python evaluates.
    hint = array_hint(kernel.func) if "jax" in str(error) else ""
    return failed(kernel, f"{type(error).__name__}: {error}{hint}")
