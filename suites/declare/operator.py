"""Declares an operator: its meaning, its kernels, its inputs and what to expect of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from suites.backends.backend import Backend, Kernel, WarpCallable, WarpKernel
from suites.declare import bare
from suites.declare import fields as declaration
from suites.declare.answers import ANSWERS, inputs_of
from suites.declare.answers import total_bytes as total_bytes
from suites.errors import OperatorError
from suites.judging.gradients import Gradient
from suites.truth.error_model import Truth

Inputs = tuple[np.ndarray[Any, Any], ...]

_DEFAULT: Any = None
"""Of a field that the operator fills in by itself."""


@dataclass(frozen=True)
class Failure:
    """The exception that bad inputs must raise, with a regular expression for its message."""

    exception: type[Exception]
    message: str

    def __post_init__(self) -> None:
        if not (isinstance(self.exception, type) and issubclass(self.exception, Exception)):
            raise OperatorError(f"Failure: exception is {self.exception!r}, expected a class such as ValueError.")
        if not isinstance(self.message, str):
            raise OperatorError(f"Failure: message is {self.message!r}, expected a regular expression.")


@dataclass(frozen=True)
class _Refused:
    """Makes the inputs of an error case, as a tuple of NumPy's arrays."""

    where: str
    given: Callable[[], Any]

    def __call__(self) -> Inputs:
        return inputs_of(self.where, self.given())


@dataclass(frozen=True)
class ErrorCase:
    """Inputs that must be refused.

    Attributes:
        name: Part of the test's id.
        inputs: Makes them.
        failures: What must be raised, by the backend that refuses them, or its name.
    """

    name: str
    inputs: Callable[[], Inputs]
    failures: Mapping[Any, Failure]

    def __post_init__(self) -> None:
        declaration.name("ErrorCase: name", self.name)
        where = f"ErrorCase {self.name!r}"
        inputs = self.inputs.given if isinstance(self.inputs, _Refused) else self.inputs
        declaration.function(f"{where}: inputs", inputs, "no arguments that makes them")
        object.__setattr__(self, "inputs", _Refused(f"{where}: inputs()", inputs))
        failures = declaration.by_backend(f"{where}: failures", self.failures)
        for backend, failure in failures.items():
            if not isinstance(failure, Failure):
                raise OperatorError(f"{where}: failures[{backend.id!r}] is {failure!r}, expected suites.Failure(...).")
        object.__setattr__(self, "failures", failures)


@dataclass(frozen=True)
class Limitation:
    """Something known not to work: its test must fail, and says so when it no longer does.

    Attributes:
        reason: Why, with a link where there is one.
        backends: Where: backends, or their names.
        dtypes: For which dtypes; empty means all.
        edges: For which edge cases; empty means the ordinary samples as well.
        checks: In which checks (:mod:`suites.checks.register`); empty means all.
    """

    reason: str
    backends: Sequence[Any]
    dtypes: Sequence[Any] = ()
    edges: Sequence[str] = ()
    checks: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise OperatorError(f"Limitation: reason is {self.reason!r}, expected why it does not work.")
        normal = {
            "backends": declaration.backends("Limitation: backends", self.backends),
            "dtypes": declaration.dtypes("Limitation: dtypes", self.dtypes) if len(self.dtypes) else (),
            "edges": (self.edges,) if isinstance(self.edges, str) else tuple(self.edges),
            "checks": (self.checks,) if isinstance(self.checks, str) else tuple(self.checks),
        }
        for name, value in normal.items():
            object.__setattr__(self, name, value)

    def applies(self, backend: Backend, dtype: str, edge: str | None = None) -> bool:
        """Whether the checks of this backend, dtype and edge case (None: an ordinary sample) must fail."""
        return (
            backend in self.backends
            and (not self.dtypes or dtype in self.dtypes)
            and (not self.edges or edge in self.edges)
        )


@dataclass(frozen=True)
class Sizes:
    """Nominal sizes: for correctness (odd ones, and one for which kernels use all they have of threads and passes), and
    for the two timing profiles of a CPU and of a GPU.

    2**26 float32 are 256 MiB an array, far beyond any cache. In the quick profile only a few built-in operators have a
    small size as well.
    """

    check: tuple[int, ...] = (1, 257, 2100)
    large: int = 100_003
    quick: tuple[int, ...] = (4096, 2**20)
    full: tuple[int, ...] = (1024, 4096, 2**16, 2**20, 2**22, 2**24)
    cuda_quick: tuple[int, ...] = (4096, 2**20, 2**26)
    cuda_full: tuple[int, ...] = (4096, 2**16, 2**20, 2**22, 2**24, 2**26)

    def __post_init__(self) -> None:
        object.__setattr__(self, "large", declaration.size("Sizes: large", self.large))
        for name in ("check", "quick", "full", "cuda_quick", "cuda_full"):
            object.__setattr__(self, name, declaration.sizes(f"Sizes: {name}", getattr(self, name)))

    def of(self, platform: str, profile: str) -> tuple[int, ...]:
        """The sizes of a timing profile (``quick`` or ``full``) on a platform."""
        sizes: tuple[int, ...] = getattr(self, profile if platform == "cpu" else f"{platform}_{profile}")
        return sizes


@dataclass(frozen=True, kw_only=True, eq=False)
class Operator:
    """One operation, everything needed to prove and to time an implementation of it.

    Name, reference and kernels are enough::

        OPERATOR = Operator(name="cube", reference=lambda x: x**3, kernels={"numba": cube})

    Functions that return several arrays return them in a tuple or list; a single one may come by itself.

    Attributes:
        name: Its name in ids and records: letters, digits, ``_``, ``.`` and ``~``.
        reference: The ``jnp`` implementation, a function of JAX's arrays.
        kernels: The implementation in each other backend, by the backend or its name: a kernel as its language has it
            (see :mod:`suites.declare.bare`), or in the class that says how it is launched, such as
            :class:`suites.backends.backend.WarpKernel`.
        version: Raised when its meaning, inputs or declared work change.
        outputs: Specs of the results for given inputs (anything with shape and dtype); by default those of the
            reference.
        truth: True results and error bounds from inputs already rounded to the tested dtype, see
            :mod:`suites.truth.error_model`; by default derived from the reference, see :mod:`suites.truth.derived`.
        tolerance: With a derived truth, the relative error that is accepted instead of a derived bound.
        dtypes: The dtypes it is defined for, or their names.
        sample: Typical inputs for the name of a dtype, a nominal size and a seed; by default a vector of as many normal
            numbers (integers from 0 to 99, mixed booleans) for each parameter of the reference that has no default.
            What has 64 bits comes with 32 where the dtype has no more, as JAX has it.
        edges: Edge cases by name, for the name of a dtype; by default none, but for the default sample empty vectors,
            those of one element and those of special values.
        errors: Inputs that must be refused.
        bytes_read: Bytes that one call has to read at least; by default those of all inputs.
        bytes_written: Bytes that one call has to write at least; by default those of all outputs.
        flops: Floating-point (or integer) operations of one call; by default None: unknown.
        sizes: The ladder of nominal sizes.
        limitations: What is known not to work.
        gradient: How it is differentiated; None where its derivative is undefined or zero throughout.
        batchable: Whether ``jax.vmap`` over it makes sense.
        elementwise: Whether element i of each output depends on element i of the inputs that are as long, and on all of
            the others. Large inputs of such an operator may repeat themselves, see :mod:`suites.judging.repetition`.
        shape: Of the long inputs of an elementwise operator, from the nominal size.
        after_csr: For an operator whose first inputs are ``data``, ``indices``, ``indptr`` of a CSR matrix: makes the
            others for a dtype, numbers of rows and columns, and a generator. With it, structures are drawn as well.
        tested: The backends that have cells, or their names; None for the reference and all that have a kernel.

    Raises:
        OperatorError: A field makes no sense; the message names the operator and the field.
    """

    name: str
    reference: Callable[..., Any]
    kernels: Mapping[Any, Any]
    version: int = 1
    outputs: Callable[..., list[jax.ShapeDtypeStruct]] = _DEFAULT
    truth: Callable[..., Truth] = _DEFAULT
    tolerance: float | None = None
    dtypes: Sequence[Any] = ("float32", "float64")
    sample: Callable[[str, int, int], Inputs] = _DEFAULT
    edges: Callable[[str], Mapping[str, Inputs]] = _DEFAULT
    bytes_read: Callable[..., int] = _DEFAULT
    bytes_written: Callable[..., int] = _DEFAULT
    flops: Callable[..., int | None] = _DEFAULT
    errors: Sequence[ErrorCase] = ()
    sizes: Sizes = field(default_factory=Sizes)
    limitations: Sequence[Limitation] = ()
    gradient: Gradient | None = None
    batchable: bool = True
    elementwise: bool = False
    shape: Callable[[int], tuple[int, ...]] = lambda size: (size,)
    after_csr: Callable[[str, int, int, np.random.Generator], Inputs] | None = None
    tested: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        declaration.name("Operator: name", self.name, also=".~")
        kernels = self._accepted_kernels()
        self._set(kernels=kernels, dtypes=declaration.dtypes(f"{self.name}: dtypes", self.dtypes))
        self._set(errors=declaration.instances(f"{self.name}: errors", self.errors, ErrorCase))
        self._set(limitations=declaration.instances(f"{self.name}: limitations", self.limitations, Limitation))
        names = [case.name for case in self.errors]
        if len(set(names)) < len(names):
            raise OperatorError(f"{self.name}: errors has two cases of one name: {', '.join(names)}. Rename one.")
        bare.no_kernel(f"{self.name}: reference", self.reference)
        for answer in ANSWERS:
            self._set(**{answer.field: answer(self, getattr(self, answer.field))})
        self._check_others()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _accepted_kernels(self) -> dict[Backend, Kernel]:
        where = f"{self.name}: kernels"
        kernels = declaration.by_backend(where, self.kernels)
        if not kernels:
            raise OperatorError(f"{where} is empty, expected at least one, such as {{'numba': kernel}}.")
        if Backend.JNP in kernels:
            raise OperatorError(f"{where} has 'jnp', which is the reference. Pass it as reference=.")
        return {each: bare.accepted(f"{where}[{each.id!r}]", each, kernel) for each, kernel in kernels.items()}

    def _check_others(self) -> None:
        declaration.whole_number(f"{self.name}: version", self.version)
        if not isinstance(self.sizes, Sizes):
            raise OperatorError(f"{self.name}: sizes is {self.sizes!r}, expected suites.Sizes(...).")
        if not isinstance(self.gradient, Gradient | None):
            raise OperatorError(f"{self.name}: gradient is {self.gradient!r}, expected suites.Gradient(...).")
        if self.tolerance is not None:
            if not isinstance(self.tolerance, int | float) or not 0 < self.tolerance < 1:
                raise OperatorError(f"{self.name}: tolerance is {self.tolerance!r}, expected a number such as 1e-5.")
            if getattr(self.truth, "given", None) is not None:
                raise OperatorError(f"{self.name}: tolerance is for a derived truth. Leave one of the two out.")
        declaration.function(f"{self.name}: shape", self.shape, "the nominal size")
        if self.after_csr is not None:
            takes = "a dtype, numbers of rows and columns, and a generator"
            declaration.function(f"{self.name}: after_csr", self.after_csr, takes)
        if self.tested is not None:
            self._set(tested=declaration.backends(f"{self.name}: tested", self.tested))
            without = [backend.id for backend in self.tested or () if backend not in self.backends()]
            if without:
                raise OperatorError(f"{self.name}: tested has {without[0]!r}, which has no kernel. Declare one.")

    @property
    def derives_truth(self) -> bool:
        """Whether truth comes from the reference, because the author declares none."""
        return getattr(self.truth, "given", None) is None

    def backends(self) -> tuple[Backend, ...]:
        """The backends it has an implementation for, the reference included, in the order of the enum."""
        return tuple(backend for backend in Backend if backend is Backend.JNP or backend in self.kernels)

    def has_gradient(self, backend: Backend, dtype: str) -> bool:
        """Whether a backend's callable can be differentiated in a dtype."""
        if self.gradient is None or backend not in self.backends() or np.dtype(dtype).kind != "f":
            return False
        declared = self.gradient.backends
        kernels = backend.has_adjoints if declared is None else backend in declared
        return (kernels or backend is Backend.JNP) and dtype in (self.gradient.dtypes or self.dtypes)

    def unsupported(self, backend: Backend, platform: str, dtype: str) -> str | None:
        """Why a backend cannot run it there in a dtype, or None if it can."""
        if backend not in self.backends():
            return f"{self.name} has no {backend.id} kernel"
        return backend.unsupported(platform, dtype) or self._undeclared(backend, dtype)

    def _undeclared(self, backend: Backend, dtype: str) -> str | None:
        """Why not, if a kernel is declared for others of the dtypes alone. One declared for none of them is wrong."""
        kernel = self.kernels.get(backend)
        if kernel is None or bare.declared_dtypes(kernel) is None or dtype not in self.dtypes:
            return None
        if bare.takes(kernel, self._array_dtypes(dtype)):
            return None
        others = [each for each in self.dtypes if bare.takes(kernel, self._array_dtypes(each))]
        return f"the {backend.id} kernel is declared for {', '.join(others)} alone" if others else None

    def _array_dtypes(self, dtype: str) -> list[str]:
        """Those of inputs and outputs."""
        inputs = self.sample(dtype, self.sizes.check[0], 0)
        arrays: list[Any] = [*inputs, *self.outputs(*inputs)]
        return [np.dtype(array.dtype).name for array in arrays]

    def float_input(self, inputs: Inputs) -> int | None:
        """The index of the first input of real floats, with respect to which one may differentiate; None without."""
        return next((index for index, array in enumerate(inputs) if array.dtype.kind == "f"), None)

    def generates_adjoint(self, backend: Backend, dtype: str) -> bool:
        """Whether Warp makes an adjoint of the kernel of a backend, whether or not ``gradient`` says so."""
        kernel = self.kernels.get(backend)
        if not isinstance(kernel, WarpKernel):
            return False
        from bridge.languages.warp.compiled import has_adjoint

        return has_adjoint(kernel.kernel(dtype))

    def is_direct(self, backend: Backend) -> bool:
        """Whether the callable of a backend is the bridge's own, and not made around it."""
        kernel = self.kernels.get(backend)
        return not isinstance(kernel, WarpCallable) and getattr(kernel, "initial", None) is None

    def calls(self, backend: Backend) -> int:
        """How many custom calls one call of a backend's callable makes."""
        kernel = self.kernels.get(backend)
        return kernel.calls if isinstance(kernel, WarpCallable) else int(backend.compiled)

    def deterministic(self, backend: Backend, platform: str) -> bool:
        """Whether a backend must give equal bits for equal inputs every time."""
        if not backend.compiled:  # XLA adds up a sparse product with atomic operations on a GPU
            return False
        return platform == "cpu" or not getattr(self.kernels.get(backend), "atomic", False)

    def build(self, backend: Backend, inputs: Any) -> Callable[..., Any]:
        """A JAX callable of one backend for inputs of these shapes and dtypes (arrays or specs).

        The callable takes the inputs and returns a list of outputs. Equal requests give callables that share their
        compiled code.
        """
        kernel = self.reference if backend is Backend.JNP else self.kernels[backend]
        return backend.build(kernel, self.outputs(*inputs), inputs)
