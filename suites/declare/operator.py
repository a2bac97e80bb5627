"""Declares an operator: its meaning, its kernels, its inputs and its expected results.

An operator needs a name, a reference and kernels. All other fields have defaults that follow from these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from suites.backends import BACKENDS, Backend
from suites.backends.jnp import JaxFunction
from suites.declare import fields
from suites.declare.acceptance import accepted, takes
from suites.declare.answers import BytesRead, BytesWritten, Edges, Flops, Outputs, Reference, Sample, TruthOf
from suites.declare.aspects import Gradient, Sizes
from suites.declare.differentiation import differentiated_inputs, why_no_gradient
from suites.declare.domain import Domain, guessed
from suites.declare.error_case import ErrorCase
from suites.declare.input_arrays import input_names
from suites.declare.shapes import domain_of, shapes_of
from suites.errors import OperatorError
from suites.kernels.kernel import AtLeast, Kernel
from suites.numerics.arrays import Inputs
from suites.numerics.derived.vectors import is_elementwise
from suites.numerics.error_model import Truth

_ANSWERS = (Reference, Outputs, TruthOf, Sample, Edges, BytesRead, BytesWritten, Flops)
"""The fields that are functions. The default of each follows from fields that come before it."""

DTYPES = ("float32", "float64")

MOST_TOLERANCE = 0.1
"""The largest tolerance: with more, results that have not one right digit would pass."""

_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("version", int, "an integer"),
    ("sizes", Sizes, "suites.Sizes(...)"),
    ("gradient", Gradient | None, "suites.Gradient(...)"),
    ("remarks", str, "a text"),
    ("domains", Mapping, "a dict by the name or index of an input, such as {'x': suites.Domain(finite=True)}"),
)

_DEFAULT: Any = None
"""The value of a field for which the operator has its own default."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operator:
    """One operation, with everything that is needed to check and to time its implementations.

    Name, reference and kernels are enough::

        OPERATOR = Operator(name="cube", reference=lambda x: x**3, kernels={"numba": cube})

    Functions that return several arrays return them in a tuple or list. A single array needs neither.

    Attributes:
        name: Its name in ids and records: letters, digits, ``_``, ``.`` and ``~``.
        reference: The ``jnp`` implementation, a function of JAX arrays.
        kernels: The implementation in each other backend, by the backend or its name. It is either a bare kernel of the
            language, or an object that also says how it is launched, such as :class:`suites.WarpKernel`. The file of
            each backend in :mod:`suites.backends` documents the kernels that it accepts.
        version: Raise it when the meaning, the inputs or the declared work change.
        outputs: Takes inputs (anything with shape and dtype). Returns something with shape and dtype for each result.
            The default is the shapes and dtypes of the reference's results.
        truth: Takes inputs that are already rounded to the tested dtype. Returns true results with error bounds, see
            :mod:`suites.numerics.error_model`. The default is derived from the reference, see
            :mod:`suites.numerics.derived`.
        tolerance: A relative error that is accepted instead of a derived bound. Only for a derived truth.
        dtypes: The dtypes it is defined for, or their names. The default is float32 and float64; or, if shapes names
            the dtype of each input, the first of these.
        sample: Takes the name of a dtype, a nominal size and a seed. Returns typical inputs. The default is a vector of
            that size for each parameter of the reference that has no default: normal numbers, integers from 0 to 99, or
            mixed booleans. 64-bit arrays become 32-bit ones, as in JAX, unless the dtype has 64 bits.
        shapes: The shapes of the default sample, a text for each input, such as ``("m n", "n")``, see
            :mod:`suites.declare.shapes`. The default is one axis for each input.
        domains: The values that an input may take, by its name or index: a :class:`suites.Domain`. Checks draw any of
            them. The default is any value of the dtype; integers of a declared sample that look like indices stay below
            an extent, see :mod:`suites.declare.domain`.
        edges: Takes the name of a dtype. Returns inputs by the name of the edge case. A declared sample has none by
            default. The default sample has empty vectors.
        errors: Inputs that must be refused.
        bytes_read: Takes inputs. Returns the bytes that a call must read at least; the default is all inputs.
        bytes_written: Takes inputs. Returns the bytes that a call must write at least; the default is all outputs.
        flops: Takes inputs. Returns the floating-point or integer operations of a call; the default is None, unknown.
        remarks: A short note for readers of its times, such as "two passes by design".
        sizes: The nominal sizes of its checks and timings.
        gradient: How it is differentiated; None if its kernels have no derivative, or the derivative is undefined or
            zero everywhere. By default the rules that an author writes for a kernel must give the derivative of the
            reference; an adjoint that Warp generates is checked only if this is declared.
        lacks: Why a kernel lacks some of the dtypes, by its backend: ``{"numba_cuda": {"bfloat16": "no vectors"}}``.
            These cells are skipped with the reason.
        tested: The backends that have cells, or their names; None for the reference and all backends with a kernel.
        peers: Functions of other libraries that compute the same, by the backend of the library or its name, such as
            ``{"numpy": numpy_into(np.cumsum)}``. ``bench --peers`` times them beside the kernels; no check runs them.
            The files of these backends in :mod:`suites.peers` document the arguments of a function.

    Raises:
        OperatorError: A field is invalid; the message names the operator and the field.
    """

    name: str
    reference: Callable[..., Any]
    kernels: Mapping[Any, Any]
    version: int = 1
    outputs: Callable[..., list[jax.ShapeDtypeStruct]] = _DEFAULT
    truth: Callable[..., Truth] = _DEFAULT
    tolerance: float | None = None
    dtypes: Sequence[Any] = _DEFAULT
    sample: Callable[[str, int, int], Inputs] = _DEFAULT
    shapes: Sequence[str] | None = None
    domains: Mapping[str | int, Domain] = field(default_factory=dict)
    edges: Callable[[str], Mapping[str, Inputs]] = _DEFAULT
    bytes_read: Callable[..., int] = _DEFAULT
    bytes_written: Callable[..., int] = _DEFAULT
    flops: Callable[..., int | None] = _DEFAULT
    remarks: str = ""
    errors: Sequence[ErrorCase] = ()
    sizes: Sizes = field(default_factory=Sizes)
    gradient: Gradient | None = field(default_factory=lambda: Gradient(is_assumed=True))
    lacks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tested: Sequence[Any] | None = None
    peers: Mapping[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields.name("Operator: name", self.name, also=".~")
        self._set(kernels=self._accepted("kernels"), peers=self._accepted("peers"))
        self._set(dtypes=fields.dtypes(f"{self.name}: dtypes", self._default_dtypes()))
        for case in self.errors:
            if not isinstance(case, ErrorCase):
                raise OperatorError(f"{self.name}: errors has {fields.shown(case)}, expected suites.ErrorCase(...).")
        names = [case.name for case in self.errors]
        if len(set(names)) < len(names):
            raise OperatorError(f"{self.name}: errors has two cases of one name: {', '.join(names)}. Rename one.")
        self._check_shapes()
        for answer in _ANSWERS:
            self._set(**{answer.field: answer(self, getattr(self, answer.field))})
        self._check_others()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _accepted(self, name: str) -> dict[Backend, Kernel]:
        """Returns the kernels or the peers, as kernels of their backends."""
        where, are_peers = f"{self.name}: {name}", name == "peers"
        declared = fields.by_backend(where, getattr(self, name))
        if not declared and not are_peers:
            raise OperatorError(f"{where} is empty, expected at least one, such as {{'numba': kernel}}.")
        if BACKENDS["jnp"] in declared:
            raise OperatorError(f"{where} has 'jnp', which is the reference. Pass it as reference=.")
        kernels = {each: accepted(f"{where}[{each.id!r}]", each, kernel) for each, kernel in declared.items()}
        libraries = ", ".join(each.id for each in BACKENDS.values() if each.library is not None)
        why = f"no library, expected one of {libraries}. Pass kernels in kernels=."
        why = why if are_peers else "a library, not a kernel language. Pass it in peers=."
        for backend in kernels:
            if (backend.library is None) == are_peers:
                raise OperatorError(f"{where} has {backend.id!r}, which is {why}")
        return kernels

    def _default_dtypes(self) -> Any:
        """Returns the declared dtypes; else the first of ``shapes``, if it names one for each input; else floats."""
        if self.dtypes is not None:
            return self.dtypes
        named = [each.dtype for each in shapes_of(f"{self.name}: shapes", self.shapes)] if self.shapes else [None]
        return DTYPES if None in named else named[0]

    def _check_shapes(self) -> None:
        if self.shapes is None:
            return
        if getattr(self.sample, "function", self.sample) is not None:
            raise OperatorError(f"{self.name}: shapes is for the default sample. Leave sample or shapes out.")
        self._set(shapes=(self.shapes,) if isinstance(self.shapes, str) else tuple(self.shapes))

    def _check_others(self) -> None:
        for name, kind, expected in _KINDS:
            if not isinstance(getattr(self, name), kind):
                raise OperatorError(f"{self.name}: {name} is {getattr(self, name)!r}, expected {expected}.")
        for domain in self.domains.values():
            if not isinstance(domain, Domain):
                raise OperatorError(f"{self.name}: domains has {domain!r}, expected suites.Domain(...).")
        if self.tolerance is not None:
            if not isinstance(self.tolerance, int | float) or not 0 < self.tolerance <= MOST_TOLERANCE:
                raise OperatorError(
                    f"{self.name}: tolerance is {self.tolerance!r}, expected a number such as 1e-5, at most "
                    f"{MOST_TOLERANCE}: a larger one accepts wrong results."
                )
            if getattr(self.truth, "function", None) is not None:
                raise OperatorError(f"{self.name}: tolerance is for a derived truth. Leave one of the two out.")
        if self.tested is not None:
            self._set(tested=fields.backends(f"{self.name}: tested", self.tested))
            without = [backend.id for backend in self.tested or () if backend not in self.backends()]
            if without:
                raise OperatorError(f"{self.name}: tested has {without[0]!r}, which has no kernel. Declare one.")

    @property
    def derives_truth(self) -> bool:
        """Whether truth comes from the reference, because the author declares none."""
        return getattr(self.truth, "function", None) is None

    def domain_of(self, index: int) -> Domain:
        """Returns the values that an input may take: the declared domain, or the one that its samples suggest.

        Raises:
            OperatorError: ``domains`` names no input of the operator.
        """
        return self.effective_domains[index]

    @functools.cached_property
    def effective_domains(self) -> tuple[Domain, ...]:
        """The domain of each input."""
        dtype, sizes = self.dtypes[0], self.sizes.check
        count = len(self.sample(dtype, sizes[0], 0))
        declared = self.declared_domains(count)
        shapes = getattr(self.sample, "shapes", ())

        def suggested(index: int) -> Domain:
            return domain_of(shapes, index) if shapes else guessed(index, self.sample, self.outputs, dtype, sizes)

        return tuple(declared[index] if index in declared else suggested(index) for index in range(count))

    @functools.cached_property
    def elementwise(self) -> bool:
        """Whether element i of each output depends only on element i of the long inputs and on the short inputs.

        Large inputs of such an operator may repeat, see :mod:`suites.cells.repeated_inputs`.
        """
        return is_elementwise(self.reference, self.sample(self.dtypes[0], self.sizes.check[-1], 0))

    def declared_domains(self, count: int) -> dict[int, Domain]:
        """Returns the declared domains of ``count`` inputs, by the index of the input.

        Raises:
            OperatorError: ``domains`` names no input of the operator.
        """
        names = input_names(self.reference, count)
        declared: dict[int, Domain] = {}
        for key, domain in self.domains.items():
            index = names.index(key) if key in names else key
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
                raise OperatorError(
                    f"{self.name}: domains has {key!r}, expected one of the inputs {', '.join(names)} or its index."
                )
            declared[index] = domain
        return declared

    def backends(self) -> tuple[Backend, ...]:
        """Returns the backends of the kernels and the reference, in the order of the registry."""
        return tuple(backend for backend in BACKENDS.values() if backend is BACKENDS["jnp"] or backend in self.kernels)

    def has_gradient(self, backend: Backend, dtype: str) -> bool:
        """Tells whether a backend's callable must have the derivative of the reference in a dtype."""
        return why_no_gradient(self, backend, dtype) is None

    def differentiated(self, inputs: Sequence[Any]) -> list[int]:
        """Returns the indices of the differentiable inputs; empty if there are none."""
        return differentiated_inputs(self, inputs)

    def unsupported(self, backend: Backend, platform: str, dtype: str) -> str | None:
        """Returns why a backend cannot run it on a platform in a dtype; None if it can."""
        if backend not in self.backends() and backend not in self.peers:
            return f"{self.name} has no {backend.id} kernel"
        why = backend.unsupported(platform, dtype) or self.kernel(backend).unsupported(platform)
        return why or self.lacks.get(backend.id, {}).get(dtype) or self._undeclared(backend, dtype)

    def _undeclared(self, backend: Backend, dtype: str) -> str | None:
        """Returns why a dtype is unsupported, if the kernel is declared for other dtypes of the operator; else None.

        A kernel that is declared for none of them is wrong, not unsupported.
        """
        kernel = self.kernels.get(backend)
        if kernel is None or kernel.declared_dtypes() is None or dtype not in self.dtypes:
            return None
        if takes(kernel, self._array_dtypes(dtype)):
            return None
        others = [each for each in self.dtypes if takes(kernel, self._array_dtypes(each))]
        return f"the {backend.id} kernel is declared for {', '.join(others)} alone" if others else None

    def _array_dtypes(self, dtype: str) -> list[str]:
        """Returns the dtypes of inputs and outputs."""
        inputs = self.sample(dtype, self.sizes.check[0], 0)
        arrays: list[Any] = [*inputs, *self.outputs(*inputs)]
        return [np.dtype(array.dtype).name for array in arrays]

    def kernel(self, backend: Backend) -> Kernel:
        """Returns the kernel of a backend, or the function of a library among the peers."""
        if backend is BACKENDS["jnp"]:
            return JaxFunction(self.reference)
        kernel: Kernel = self.peers[backend] if backend in self.peers else self.kernels[backend]
        return kernel

    def calls(self, backend: Backend) -> int | AtLeast:
        """Returns how many custom calls one call of a backend's callable makes."""
        return self.kernel(backend).custom_calls if backend.compiled else 0

    def deterministic(self, backend: Backend, platform: str) -> bool:
        """Tells whether a backend must give equal bits for equal inputs every time."""
        if not backend.compiled:  # XLA adds up a sparse product with atomic operations on a GPU
            return False
        return platform == "cpu" or not self.kernel(backend).adds_atomically

    def build(self, backend: Backend, inputs: Any) -> Callable[..., Any]:
        """Returns a JAX callable of one backend for inputs of these shapes and dtypes (arrays or specs).

        The callable takes the inputs and returns a list of outputs. Equal requests give callables that share their
        compiled code.
        """
        return backend.build(self.kernel(backend), self.outputs(*inputs), inputs)
