"""Describes one call of an operator as plain data, which identifies a compiled program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from bridge.compat.jax import hold_weakly
from bridge.debug.mode import OFF, Mode
from bridge.errors import SignatureError
from bridge.ffi.mesh.division import Division, Name, Names, Parts

Function = Callable[..., list[Any]]
"""A function of arrays that returns a flat list of arrays."""

Generator = Callable[..., Callable[..., Any]]
"""Takes keyword parameters, ``outs`` among them, and returns a function of the input arrays."""

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Parameters:
    """Static keyword parameters. Hashable, and equal only if one program is right for both.

    Two values count as the same if they have the same type and the same ``repr``, and are equal. Python calls 1, 1.0
    and True equal, and so 0.0 and -0.0; their ``repr`` tells them apart, in tuples and dataclasses too.

    Args:
        values: The values by name.

    Raises:
        TypeError: A value is not hashable.

    Attributes:
        items: Pairs of name and value, sorted by name.
    """

    values: InitVar[Mapping[str, Any]]
    items: tuple[tuple[str, Any], ...] = field(init=False, compare=False)
    _content: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self, values: Mapping[str, Any]) -> None:
        items = tuple(sorted(values.items(), key=lambda item: item[0]))
        vars(self).update(items=items, _content=tuple([(name, content_of(value)) for name, value in items]))


def content_of(value: Any) -> Hashable:
    """A key of a value that equals the keys of equal contents only.

    Raises:
        TypeError: The value is not hashable.
    """
    hash(value)
    same = value == value  # NaN is not equal to itself
    return type(value), repr(value), value if same else None


NO_PARAMETERS = Parameters({})


class Candidate(NamedTuple):
    """A kernel that is registered for ``platform``, in one of its configurations.

    Attributes:
        platform: JAX's name of the platform.
        backend: The name it is registered under.
        generator: Makes the kernel.
        configuration: The name of its configuration, if it has any.
        options: The keyword parameters of the configuration.
    """

    platform: str
    backend: str
    generator: Generator
    configuration: str | None = None
    options: Parameters = NO_PARAMETERS

    @property
    def reference(self) -> str:
        """Its name in a call: ``"backend"`` or ``"backend:configuration"``."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any, because the platform is known only when a computation is lowered."""


@dataclass(frozen=True)
class Dimensions:
    """The names of the dimensions of operands and results, see :meth:`bridge.XLACustomKernel.def_partitioning`.

    Attributes:
        operands: The names for each operand.
        results: The names for each result.
        split: Dimensions that may be split over devices, because the operator treats their elements independently of
            each other.
    """

    operands: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]
    split: frozenset[str]

    @classmethod
    def parse(cls, text: str, split: frozenset[str], name: str) -> Dimensions:
        """Reads the notation, such as ``"b i, i -> b"``, for the operator ``name``.

        Raises:
            SignatureError: It is malformed, or a result lacks a dimension that may be split.
        """
        operands, arrow, results = text.partition("->") if isinstance(text, str) else ("", "", "")
        parsed = [tuple(tuple(array.split()) for array in side.split(",")) for side in (operands, results)]
        names = {dimension for side in parsed for array in side for dimension in array}
        if not arrow or not all(dimension.isidentifier() for dimension in names):
            raise SignatureError(
                f"{name}: the dimensions are {text!r}, expected names of the dimensions of each operand and result, as "
                "'b i, i -> b'."
            )
        for dimension in sorted(split):
            if not all(dimension in array for array in parsed[1]):
                raise SignatureError(
                    f"{name}: the dimension {dimension!r} cannot be split, because it is not one of every result of "
                    f"{text!r}."
                )
        return cls(parsed[0], parsed[1], split)


@dataclass(frozen=True)
class Rules:
    """The rules of an operator. They are part of every call, so a later rule does not change compiled programs.

    Attributes:
        jvp: See :meth:`bridge.XLACustomKernel.def_jvp`.
        vjp: The forward and the backward rule, see :meth:`bridge.XLACustomKernel.def_vjp`.
        transposes: Pairs of an operand and its rule, see :meth:`bridge.XLACustomKernel.def_transpose`. The operator is
            linear in each of these operands.
        batching: See :meth:`bridge.XLACustomKernel.def_batching`.
        dimensions: See :meth:`bridge.XLACustomKernel.def_partitioning`.
    """

    jvp: Rule | None = None
    vjp: tuple[Rule, Rule] | None = None
    transposes: tuple[tuple[int, Rule], ...] = ()
    batching: Rule | None = None
    dimensions: Dimensions | None = None


@dataclass(frozen=True)
class OperatorCall:
    """The static part of one call of an operator. Hashable.

    Attributes:
        name: The operator.
        choice: The kernel to run on each platform.
        outputs: Shape and dtype of each result, without batch dimensions.
        parameters: Keyword parameters for the generator.
        rules: The rules that the author declared.
        has_side_effect: Run it even if nothing uses its results.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
        mode: The debug mode in which it was traced.
        references: In a debug mode, the kernel to compare with, on each platform that has it.
        note: While :func:`bridge.tune` looks for calls, takes the call, the platform and the arrays of each run.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: Parameters
    rules: Rules = Rules()
    has_side_effect: bool = False
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    mode: Mode = OFF
    references: Choice = ()
    note: Callable[..., None] | None = None

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.reference}' for c in self.choice)}]"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of generators and rules: ``outs``, and the parameters of the call."""
        return {"outs": self.outputs, **dict(self.parameters.items)}

    @property
    def results(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        """Shape and dtype of each result, with batch dimensions."""
        extents = tuple(extent for extent, _ in reversed(self.batches))
        return tuple((extents + spec.shape, spec.dtype) for spec in self.outputs)

    @property
    def is_checked(self) -> bool:
        """Whether debug mode or ``tune`` looks at its arrays."""
        return bool(self.mode) or self.note is not None

    @property
    def may_be_split(self) -> bool:
        """Whether XLA's partitioner may split it. The kernels of an operator with side effects are on their own."""
        declared = self.rules.dimensions
        return not self.has_side_effect and bool(self.batches or (declared and declared.split))

    @property
    def batch_names(self) -> tuple[Name, ...]:
        """The names of the dimensions of its batches. Authors name dimensions with strings."""
        return tuple(range(len(self.batches)))

    def division(self, args: Sequence[Any]) -> Division:
        """Its dimensions: it can be split along its batches, and where its author has declared it.

        Args:
            args: Anything with the shape of each argument, batch dimensions included.

        Raises:
            SignatureError: The declared dimensions do not fit the arguments or results.
        """
        operands, results, splittable = _own_names(self, args)
        for name, (_, axes) in zip(self.batch_names, self.batches, strict=True):
            operands = tuple(
                names if axis is None else (*names[:axis], name, *names[axis:])
                for names, axis in zip(operands, axes, strict=True)
            )
            results = tuple((name, *names) for names in results)
        return Division(self.name, operands, results, splittable.union(self.batch_names))

    def part(self, args: Sequence[Any], parts: Parts) -> OperatorCall:
        """The call on a part of its arguments.

        Args:
            args: Anything with the shape of each argument of the whole call.
            parts: The number of parts of each dimension.
        """
        results = _own_names(self, args)[1]
        outputs = tuple(
            jax.ShapeDtypeStruct(_shares(names, spec.shape, parts), spec.dtype)
            for names, spec in zip(results, self.outputs, strict=True)
        )
        extents = _shares(self.batch_names, [extent for extent, _ in self.batches], parts)
        batches = tuple((extent, axes) for extent, (_, axes) in zip(extents, self.batches, strict=True))
        return replace(self, outputs=outputs, batches=batches)


hold_weakly(OperatorCall)


def _shares(names: Sequence[Name], shape: Sequence[int], parts: Parts) -> tuple[int, ...]:
    return tuple(extent // parts.get(name, 1) for name, extent in zip(names, shape, strict=True))


def _own_names(call: OperatorCall, args: Sequence[Any]) -> tuple[tuple[Names, ...], tuple[Names, ...], frozenset[Name]]:
    """The names of the dimensions of operands and results without batches, and of those that may be split."""
    batched = [sum(axes[index] is not None for _, axes in call.batches) for index in range(len(args))]
    operands = [len(arg.shape) - batches for arg, batches in zip(args, batched, strict=True)]
    results = [len(spec.shape) for spec in call.outputs]
    declared = call.rules.dimensions
    if declared is None:
        return _unique("operand", operands), _unique("result", results), frozenset()
    for what, names, ranks in (("operands", declared.operands, operands), ("results", declared.results, results)):
        if [len(each) for each in names] != ranks:
            written = ", ".join(" ".join(each) for each in names)
            raise SignatureError(
                f"{call.name}: its {what} have {ranks} dimensions, but def_partitioning declares {written!r}. Declare "
                "one name for each dimension."
            )
    return declared.operands, declared.results, frozenset(declared.split)


def _unique(which: str, ranks: Sequence[int]) -> tuple[Names, ...]:
    return tuple(tuple((which, array, dimension) for dimension in range(rank)) for array, rank in enumerate(ranks))
