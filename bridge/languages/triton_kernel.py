"""Makes Triton kernels callable from JAX: :func:`triton_kernel`."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bridge.compat.triton import LIBRARY, current, ir_of, scratch_pointers, source_of, view_of
from bridge.cuda.carried_cubins import Cubin, launch_of_words
from bridge.cuda.cubins import (
    ALIGNMENT,
    CubinLanguage,
    Launched,
    Number,
    alignment_of,
    check_values,
    number,
    of_arrays,
)
from bridge.cuda.launch_shape import LaunchShape, launch_shape
from bridge.errors import KernelCompileError, KernelTypeError, LaunchError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.kernel.arguments import Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import Compiled, Definition
from bridge.kernel.sent_by_name import sent_by_name
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.languages.triton_configurations import OPTIONS, resolved
from bridge.table import LANGUAGES

WARP_THREADS = 32


@says_its_call
def triton_kernel(
    kernel: Any,
    outs: Any,
    *,
    grid: int | tuple[int, ...] | Callable[[dict[str, Any]], Any],
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    config: Any = None,
    outputs: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    **values: Any,
) -> Callable[..., Any]:
    """Makes a Triton kernel callable from JAX: compiled by Triton, launched natively on XLA's stream.

    It needs the package ``triton``, and neither PyTorch nor ``jax_triton``. The kernel is compiled for each GPU of the
    process when JAX compiles the call. XLA may record its launches into CUDA graphs.

    Args:
        kernel: A function decorated with ``triton.jit``; it may be under ``triton.heuristics`` and ``triton.autotune``.
            Its pointers are the inputs and then the outputs, in the order of its parameters; arrays are C-contiguous.
            It writes every element of its outputs, and no input.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Programs to launch, an int or up to three (x, y, z); or a function of the dict of ``values`` that returns
            them, as Triton takes it.
        num_warps: Warps of a program, 4 by default, or what the configuration says. A parameter of the kernel with this
            name, or one of the next two, gets the value, too.
        num_stages: Stages of software pipelines, 3 by default.
        num_ctas: Blocks of a program, which form a cluster, 1 by default; more need compute capability 9.0.
        config: The ``triton.Config`` of a kernel under ``triton.autotune``; by default its first one. Nothing is timed
            here: :func:`bridge.triton_configurations` gives all of them to an operator, whose ``tune`` finds the
            fastest.
        outputs: The names of the parameters that are outputs, in the order of ``outs``; by default the last pointers.
        options: Further options of Triton's CUDA backend, such as ``{"maxnreg": 64}``.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer. The kernel gets both pointers.
        has_side_effect: As for :func:`bridge.numba_kernel`.
        **values: The parameters that are no arrays, by name: of ``tl.constexpr``, and numbers, which are static. An int
            is passed as ``i32`` or ``i64``, a float as ``fp32``, a NumPy scalar as its dtype; a parameter that is
            annotated with a dtype (``n: tl.int64``) gets this one. A pointer may be None. What you pass by name goes
            before what a configuration or heuristic sets. A heuristic is called with these values now, so it can ask
            only whether an array is None.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: Triton is not installed.
        KernelTypeError: ``kernel`` is no function decorated with ``triton.jit``.
        SignatureError: ``values`` has a name that the kernel does not have, or a value that Triton does not take;
            ``outputs`` is no list of its pointers; or a decorator does what cannot be resolved here.
        ValueError: The launch arguments make no sense, or exceed a limit of the device.
        KernelCompileError: When called: Triton cannot compile the kernel for these arrays.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`.

    Example::

        @triton.jit
        def add(x, y, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

        call = triton_kernel(
            add, jax.ShapeDtypeStruct((1000,), jnp.float32), grid=lambda v: triton.cdiv(1000, v["BLOCK"]),
            n=1000, BLOCK=256,
        )
    """
    triton = _triton()
    launch = {"num_warps": num_warps, "num_stages": num_stages, "num_ctas": num_ctas}
    asked = {each: value for each, value in launch.items() if value is not None}
    decorated, (kernel, known) = kernel, resolved(kernel, values | asked, config)
    if not isinstance(kernel, triton.runtime.JITFunction):
        raise KernelTypeError(
            f"triton_kernel got {decorated!r} of type {type(decorated).__name__}, expected a function decorated with "
            "triton.jit: decorate it with triton.jit, and unset TRITON_INTERPRET."
        )
    name = kernel.fn.__name__
    asked = {each: known[each] for each in (*OPTIONS, "maxnreg", "ir_override") if each in known and each not in values}
    given = {p.name: p.default for p in kernel.params if p.has_default}
    given |= {each: value for each, value in known.items() if each not in asked or each in kernel.arg_names}
    check_values(name, kernel.arg_names, [p.name for p in kernel.params if p.is_constexpr], given)
    constant = [p.name for p in kernel.params if p.is_constexpr or given.get(p.name, p) is None]
    constants = tuple((each, given[each]) for each in constant)
    scalars = tuple(
        number(name, p.name, given[p.name], tuple(TYPES), "tl.constexpr", DTYPES.get(p.annotation_type))
        for p in kernel.params
        if p.name in given and p.name not in constant
    )
    passed: dict[str, Any] = {"enable_fp_fusion": True, "num_warps": 4, "num_stages": 3, "num_ctas": 1} | asked
    if not isinstance(options, Mapping | None):
        raise SignatureError(f"{name}: options is {options!r}, expected a dict of options of Triton's CUDA backend.")
    passed |= options or {}
    _check_options(name, passed)
    pointers, last = [each for each in kernel.arg_names if each not in given], list(outputs or ())
    if isinstance(outputs, str) or len({*last} & {*pointers}) != len(last):
        raise SignatureError(f"{name}: outputs is {outputs!r}, expected different names of its pointers: {pointers}.")
    arrays = (*(each for each in pointers if each not in last), *last)
    definition = DEFINITIONS.define(
        LANGUAGE,
        (id(kernel), scalars, _exactly(constants), repr(passed), arrays),
        lambda: TritonDefinition(name, of_arrays(kernel.fn, arrays), None, kernel, scalars, constants, passed, arrays),
    )
    programs = grid(dict(given)) if callable(grid) else grid
    shape = launch_shape(name, programs, 1)  # how many threads says the compiler
    return wrap(LANGUAGE, definition, Launched(shape), outs, vmap_method, input_output_aliases, has_side_effect)


@dataclass(frozen=True, eq=False)
class TritonDefinition(Definition):
    """A Triton kernel with the values of the parameters that are no arrays.

    Attributes:
        kernel: The ``JITFunction``.
        scalars: The numbers among the parameters.
        constants: The values of its constexpr parameters, and None for pointers that it does not get, by name.
        options: The options of Triton's CUDA backend.
        arrays: Its pointers in the order of the arrays of a call.
    """

    kernel: Any = field(repr=False)
    scalars: tuple[Number, ...]
    constants: tuple[tuple[str, Any], ...]
    options: dict[str, Any]
    arrays: tuple[str, ...]

    @property
    def taken(self) -> list[str | Number]:
        """What the machine code takes, in order: names of arrays, and scalars."""
        scalars = {each.name: each for each in self.scalars}
        constants = dict(self.constants)
        return [scalars.get(name, name) for name in self.kernel.arg_names if name not in constants]

    def source(self, signature: Signature, key: str = "") -> Any:
        """The kernel for arrays of these types, as Triton compiles it and keeps it by a key."""
        types, attributes = {name: "constexpr" for name, _ in self.constants}, {}
        for each in self.taken:
            if isinstance(each, Number):
                types[each.name], is_divisible = TYPES[each.dtype], each.is_divisible
            else:
                array = signature.arrays[self.arrays.index(each)]
                types[each], is_divisible = f"*{TYPES[array.dtype]}", alignment_of(array) > 1
            if is_divisible:
                name = each if isinstance(each, str) else each.name
                attributes[(self.kernel.arg_names.index(name),)] = [["tt.divisibility", ALIGNMENT]]
        in_order = {name: types[name] for name in self.kernel.arg_names}
        return source_of(self.kernel, in_order, dict(self.constants), attributes, key)

    def content(self, signature: Signature) -> dict[int, str]:
        """What a launch follows from, by compute capability: Triton's IR of the kernel, without files and lines.

        It is the same on every machine. A kernel that asks which chip it is for gets the IR for each capability.
        Another one gets it for one of those that Triton's options and functions do not tell apart: a dtype may need a
        capability, and the default of an option may follow from it.

        Raises:
            Exception: Triton makes no IR for any capability; the error of the last, which lacks the least.
        """
        least = CLUSTERS_SINCE if self.options["num_ctas"] > 1 else CAPABILITIES[0]
        made: dict[int, str] = {}
        refused, seen, asked = [], set(), False
        for capability in (each for each in CAPABILITIES if each >= least):
            try:
                view = view_of(_target(capability), self.options)
                if asked or view not in seen:
                    seen.add(view)
                    made[capability], asked = self.ir(signature, capability)
            except Exception as error:
                refused.append(error)
        if not made:
            raise refused[-1]
        return made

    def ir(self, signature: Signature, capability: int) -> tuple[str, bool]:
        """Triton's IR of the kernel for a compute capability, and whether the kernel asked for it."""
        return ir_of(self.source(signature), _target(capability), self.options)

    def compile(self, signature: Signature, capability: int) -> Any:
        """Triton's ``CompiledKernel`` for a compute capability, such as 90.

        Raises:
            LaunchError: It asks for clusters, which the architecture does not have, or for memory of a profiler.
        """
        if self.options["num_ctas"] > 1 and capability < CLUSTERS_SINCE:
            raise LaunchError(
                f"{self.name}: num_ctas is {self.options['num_ctas']}, but sm_{capability} has no clusters. Pass 1."
            )
        target, cache = _target(capability), _triton().knobs.cache
        source = self.source(signature, hashlib.sha256(self.ir(signature, capability)[0].encode()).hexdigest())
        with current(target), cache.scope():
            cache.dir = cache.dir or cache.get_triton_dir("cache")  # jax_triton 0.3 sets the variable to ""
            compiled = _triton().compile(source, target=target, options=dict(self.options))
        if compiled.metadata.profile_scratch_size:
            raise LaunchError(f"{self.name} has instruments of Triton's profiler. Switch them off to call it.")
        return compiled

    def scratch_bytes(self, signature: Signature) -> int:
        """The most scratch memory of a block on chips that have some: for tensor descriptors that a kernel makes."""
        sizes = [0]
        for capability in DESCRIPTORS:
            with contextlib.suppress(Exception):  # loading the kernel for a chip says what is wrong with it
                sizes.append(self.compile(signature, capability).metadata.global_scratch_size)
        return max(sizes)


TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e4m3b11fnuz": "fp8e4b15", "float8_e5m2": "fp8e5",
}  # fmt: skip
"""Triton's names of dtypes."""

DTYPES = {each: dtype for dtype, each in TYPES.items()} | {"u1": "bool"}
"""The dtypes by the names that Triton makes of annotations."""

CAPABILITIES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
"""The compute capabilities that CUDA 13 has, for a kernel may ask which it is."""

CLUSTERS_SINCE = 90

DESCRIPTORS, DESCRIPTOR_ALIGNMENT = (90, 100), 128
"""Compute capabilities with tensor descriptors in memory, and what their addresses are multiples of."""


class _Triton(CubinLanguage[TritonDefinition, Launched]):
    def compile(self, definition: TritonDefinition, options: Launched, signature: Signature, platform: str) -> Compiled:
        with self.refusing(definition):
            made = definition.content(signature)
        content = "\n".join((_triton().__version__, repr(definition.scalars), repr(made)))
        of_block = definition.scratch_bytes(signature) if "tt.make_tensor_descriptor" in content else 0
        blocks = math.prod(options.shape.grid) * definition.options["num_ctas"]
        scratch = (of_block * blocks,) if of_block else ()
        alignments = [*map(alignment_of, signature.arrays), *([DESCRIPTOR_ALIGNMENT] if scratch else [])]

        def cubin(capability: int) -> Cubin:
            for each in {capability, next(iter(made))} & made.keys():
                if definition.ir(signature, each)[0] != made[each]:
                    raise KernelCompileError(
                        f"{definition.name} uses a variable that changed after the trace. Pass it by name, or as an "
                        "array."
                    )
            code = definition.compile(signature, capability)
            if code.metadata.global_scratch_size > of_block:
                raise LaunchError(f"{definition.name} needs more scratch memory on sm_{capability} than a call has.")
            return Cubin(code.asm["cubin"], code.metadata.name, launch_of(definition, options, code))

        return self.compiled(definition, options, content, cubin, alignments, scratch)


def launch_of(definition: TritonDefinition, options: Launched, compiled: Any) -> Launch:
    """The launch of a compiled kernel: a word for each parameter. Scratch memory is the buffer after all."""
    taken, about = definition.taken, compiled.metadata
    words = [each.word if isinstance(each, Number) else 0 for each in taken]
    arrays = [taken.index(each) for each in definition.arrays]
    arrays += [len(words)] if about.global_scratch_size else []
    sizes = [each.size if isinstance(each, Number) else WORD_BYTES for each in taken]
    more = scratch_pointers(compiled, len(taken))
    x, y, z = options.shape.grid
    clusters = definition.options["num_ctas"]  # whose blocks lie side by side in x
    return launch_of_words(
        definition.name,
        LaunchShape((x * clusters, y, z), (WARP_THREADS * about.num_warps, 1, 1), about.shared),
        words + [0] * more,
        [Patch(word=word, buffer=buffer) for buffer, word in enumerate(arrays)],
        cooperative=bool(about.launch_cooperative_grid),
        cluster=clusters,
        sizes=(*sizes, *[WORD_BYTES] * more),
        compiler=LIBRARY.name,
    )


LANGUAGE = _Triton(
    LANGUAGES["triton"],
    compiler="Triton",
    options_type=Launched,
    dtypes=tuple(TYPES),
)


def _exactly(value: Any) -> Any:
    """Tells values apart: functions of one name by which they are, and equal numbers by their type and sign."""
    if isinstance(value, tuple):
        return (type(value), *map(_exactly, value))
    plain = value is None or isinstance(value, bool | int | float | str | np.generic | _triton().language.dtype)
    return repr(value) if plain else (repr(value), id(value))  # the definition keeps the value alive


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    for option in ("num_warps", "num_ctas"):
        value = options[option]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
            raise LaunchError(f"{name}: {option} is {value!r}, expected a power of two, such as 4.")
    from triton.backends.nvidia.compiler import CUDAOptions

    known = list(CUDAOptions.__dataclass_fields__)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise SignatureError(f"{name}: Triton has no option {unknown[0]!r}. Known are {', '.join(known)}.")


def _target(capability: int) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", capability, WARP_THREADS)


def _triton() -> Any:
    try:
        import triton
        import triton.backends.nvidia.compiler
        import triton.compiler
    except ImportError as error:
        raise LANGUAGE.row.unavailable("Triton", error) from error
    sent_by_name(triton.runtime.JITFunction, lambda kernel: kernel.fn)
    return triton
