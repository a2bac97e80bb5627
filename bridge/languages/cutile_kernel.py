"""Makes cuTile kernels callable from JAX: :func:`cutile_kernel`."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from bridge.compat.cutile import LIBRARY, annotated, compiler_options, find_printer, text_of
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
from bridge.cuda.launch_shape import MOST, launch_shape
from bridge.errors import KernelTypeError, SignatureError
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.kernel.arguments import ArrayType, Signature
from bridge.kernel.definitions import DEFINITIONS
from bridge.kernel.language import Compiled, Definition
from bridge.kernel.sent_by_name import sent_by_name
from bridge.kernel.wrapper import says_its_call, wrap
from bridge.table import LANGUAGES


@says_its_call
def cutile_kernel(
    kernel: Any,
    outs: Any,
    *,
    grid: int | tuple[int, ...] | Callable[[dict[str, Any]], Any],
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    **values: Any,
) -> Callable[..., Any]:
    """Makes a cuTile kernel callable from JAX: compiled by NVIDIA's tile compiler, launched natively on XLA's stream.

    It needs the package ``cuda-tile`` with its extra ``tileiras``, and a GPU of compute capability 8.0 or higher. The
    kernel is compiled for each GPU of the process when JAX compiles the call. XLA may record its launches into CUDA
    graphs.

    Args:
        kernel: A function decorated with ``cuda.tile.kernel``. Its arrays are the inputs and then the outputs, in the
            order of its parameters; they are C-contiguous. It writes every element of its outputs, and no input. Hints
            such as ``num_ctas`` and ``occupancy`` go to the decorator, or to ``kernel.replace_hints(...)``.
        outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them; or a function of
            the inputs that returns these, as for :func:`bridge.numba_kernel`.
        grid: Blocks to launch, an int or up to three (x, y, z); or a function of the dict of ``values`` that returns
            them.
        vmap_method: As for :func:`bridge.numba_kernel`: by default one call launches the kernel for each element.
        input_output_aliases: Pairs of input and output index that share a buffer. The kernel gets both arrays.
        has_side_effect: As for :func:`bridge.numba_kernel`.
        **values: The parameters that are no arrays, by name: those annotated with ``ct.Constant``, and numbers, which
            are static; also tuples of these. Where a parameter is no constant, an int is passed as int32 or int64, a
            float as float32, a NumPy scalar as its dtype.

    Returns:
        A ``jax.jit`` function of the input arrays that returns the results that ``outs`` describes.

    Raises:
        ImportError: cuTile is not installed, or its compiler is older than CUDA 13.4.
        KernelTypeError: ``kernel`` is no function decorated with ``cuda.tile.kernel``.
        SignatureError: ``values`` has a name that the kernel does not have, or a value that cuTile does not take.
        ValueError: The grid makes no sense, or exceeds a limit of the device.
        KernelCompileError: When called: cuTile cannot compile the kernel for these arrays.

    A kernel has no derivative of its own; attach one as for :func:`bridge.numba_kernel`.

    Example::

        @ct.kernel
        def add(x, y, out, SIZE: ct.Constant[int]):
            i = ct.bid(0)
            ct.store(out, i, ct.load(x, i, SIZE) + ct.load(y, i, SIZE))

        call = cutile_kernel(
            add, jax.ShapeDtypeStruct((1000,), jnp.float32), grid=lambda v: ct.cdiv(1000, v["SIZE"]), SIZE=256
        )
    """
    if not isinstance(kernel, cuda_tile().kernel):
        raise KernelTypeError(
            f"cutile_kernel got {kernel!r} of type {type(kernel).__name__}, expected a function decorated with "
            "cuda.tile.kernel: decorate it."
        )
    about = annotated(kernel)
    parameters, name = about.pysig.parameters, about.pyfunc.__name__
    annotations = dict(zip(parameters, about.parameter_annotations, strict=True))
    given = {each: of.default for each, of in parameters.items() if of.default is not of.empty} | values
    needed = [each for each in parameters if getattr(annotations[each], "constant", True)]
    check_values(name, list(parameters), needed, given)
    statics = {each: _static(name, each, given[each], annotations[each]) for each in parameters if each in given}
    arrays = of_arrays(about.pyfunc, [each for each in parameters if each not in given])
    content = id(kernel), repr(statics)
    definition = DEFINITIONS.define(LANGUAGE, content, lambda: CutileDefinition(name, arrays, None, kernel, statics))
    blocks = grid(dict(given)) if callable(grid) else grid
    shape = launch_shape(name, blocks, 1)  # threads, clusters and shared memory are in the cubin
    return wrap(LANGUAGE, definition, Launched(shape), outs, vmap_method, input_output_aliases, has_side_effect)


@dataclass(frozen=True, eq=False)
class CutileDefinition(Definition):
    """A cuTile kernel with the values of the parameters that are no arrays.

    Attributes:
        kernel: The ``cuda.tile.kernel``.
        statics: By parameter: a constant, a :class:`~bridge.cuda.cubins.Number`, or a tuple of these.
    """

    kernel: Any = field(repr=False)
    statics: dict[str, Any]

    def taken(self, signature: Signature) -> list[Any]:
        """What the kernel takes, in order: types of arrays, and static values."""
        arrays = iter(signature.arrays)
        parameters = annotated(self.kernel).pysig.parameters
        return [self.statics[each] if each in self.statics else next(arrays) for each in parameters]

    def export(self, signature: Signature, output_format: str, gpu_code: str | None = None) -> bytes:
        """The kernel for arrays of these types, in a format of ``cuda.tile.compilation.export_kernel``."""
        compilation = cuda_tile().compilation
        # Arrays of different groups are taken not to overlap. An input that the kernel may write to is an output.
        groups = ("outputs",) if any(each.writable for each in signature.inputs) else ()
        constraints = [_constraint(each, groups) for each in self.taken(signature)]
        convention = compilation.CallingConvention.cutile_python_v2()
        described = compilation.KernelSignature(constraints, convention, symbol=self.name)
        made = io.BytesIO()
        compilation.export_kernel(self.kernel, [described], made, output_format=output_format, gpu_code=gpu_code)
        return made.getvalue()

    def content(self, signature: Signature) -> str:
        """What a launch follows from: the tile IR for every chip without files and lines, and the numbers."""
        text = text_of(self.export(signature, "tileir_bytecode"))
        return "\n".join((cuda_tile().__version__, compiler_options(self.kernel), repr(self.statics), text))


TYPES = {"bool": "bool_"} | {each: each for each in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
)}  # fmt: skip
"""cuTile's names of dtypes."""


class _Cutile(CubinLanguage[CutileDefinition, Launched]):
    def compile(self, definition: CutileDefinition, options: Launched, signature: Signature, platform: str) -> Compiled:
        def cubin(capability: int) -> Cubin:
            content = definition.export(signature, "cubin", f"sm_{capability}")
            return Cubin(content, definition.name, launch_of(definition, options, signature))

        with self.refusing(definition):
            content = definition.content(signature)
        return self.compiled(definition, options, content, cubin, [*map(alignment_of, signature.arrays)])


def launch_of(definition: CutileDefinition, options: Launched, signature: Signature) -> Launch:
    """The launch of a kernel.

    The parameters follow the calling convention ``cutile_python_v2``: of an array its address, extents and strides (in
    elements), of another value itself.
    """
    words: list[int] = []
    sizes: list[int] = []
    patches: list[Patch] = []
    for each in definition.taken(signature):
        if isinstance(each, ArrayType):
            patches.append(Patch(word=len(words), buffer=len(patches)))
            words += [0, *each.extents, *_strides(each)]
            sizes += [WORD_BYTES, *[WORD_BYTES if _is_large(each) else WORD_BYTES // 2] * (2 * each.rank)]
        else:
            leaves = jax.tree.leaves(each, is_leaf=lambda leaf: isinstance(leaf, Number))
            words += [leaf.word for leaf in leaves if isinstance(leaf, Number)]
            sizes += [leaf.size for leaf in leaves if isinstance(leaf, Number)]
    return launch_of_words(definition.name, options.shape, words, patches, sizes=tuple(sizes), compiler=LIBRARY.name)


LANGUAGE = _Cutile(
    LANGUAGES["cutile"],
    compiler="cuTile",
    options_type=Launched,
    dtypes=tuple(TYPES),
)


def _strides(array: ArrayType) -> list[int]:
    """The strides of an array in elements."""
    return [math.prod(array.extents[axis + 1 :]) for axis in range(array.rank)]


def _is_large(array: ArrayType) -> bool:
    """Whether extents or strides need 64 bits."""
    return max((*array.extents, *_strides(array)), default=0) > MOST


def _constraint(taken: Any, groups: tuple[str, ...]) -> Any:
    """What the compiler knows of a parameter: an array, which may overlap others of its groups, or a static value."""
    tile = cuda_tile()
    if isinstance(taken, Number):
        return tile.compilation.ScalarConstraint(getattr(tile, TYPES[taken.dtype]))
    if not isinstance(taken, ArrayType):
        return tuple(_constraint(each, ()) for each in taken) if isinstance(taken, tuple) else taken
    strides = _strides(taken)
    index_dtype = tile.int64 if _is_large(taken) else tile.int32
    # What cuTile's own calls say. Given all extents, cuda-tile 1.7 takes the 32 columns of an array for a tile of 64 as
    # contiguous, and loads them one after the other.
    whole = max(ALIGNMENT // taken.item_bytes, 1)
    return tile.compilation.ArrayConstraint(
        getattr(tile, TYPES[taken.dtype]), taken.rank, index_dtype=index_dtype, stride_lower_bound_incl=0,
        alias_groups=groups if taken.writable else (), may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in strides],
        shape_constant=[1 if extent == 1 else None for extent in taken.extents],
        stride_divisible_by=[whole if stride % whole == 0 else 1 for stride in strides],
        shape_divisible_by=[ALIGNMENT if extent % ALIGNMENT == 0 else 1 for extent in taken.extents],
        base_addr_divisible_by=alignment_of(taken),
    )  # fmt: skip


def _static(name: str, parameter: str, value: Any, annotation: Any) -> Any:
    """A constant or a number, or a tuple of these, for the value that a user passes."""
    if isinstance(value, tuple):  # of another length than annotated, it is refused by cuTile
        items = [*getattr(annotation, "items", ()), *[getattr(annotation, "each", annotation)] * len(value)]
        return tuple(_static(name, parameter, *each) for each in zip(value, items, strict=False))
    if not getattr(annotation, "constant", False):
        asked = getattr(annotation, "scalar", None)
        return number(name, parameter, value, tuple(TYPES), "ct.Constant", None if asked is None else str(asked.dtype))
    constant = value.item() if isinstance(value, np.generic) else value
    if not isinstance(constant, bool | int | float):
        raise SignatureError(
            f"{name}: {parameter} is {value!r} of type {type(value).__name__}, expected a number or a tuple of "
            "numbers: cuTile has no other constants. Define the kernel in a function, and use what the function gets."
        )
    return constant


def cuda_tile() -> Any:
    """The package ``cuda.tile``.

    Raises:
        UnavailableError: It does not import, or has no compiler, or one without a printer of its IR; an ImportError.
    """
    try:
        import cuda.tile
        import cuda.tile.compilation

        find_printer()
    except (ImportError, OSError, UserWarning) as error:  # it warns of versions that do not fit together
        raise LANGUAGE.row.unavailable("cuTile", error) from error
    sent_by_name(cuda.tile.kernel, lambda kernel: annotated(kernel).pyfunc)
    return cuda.tile
