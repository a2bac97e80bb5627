"""What an operator declares: its meaning, its kernels, its inputs and what to expect of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from suites.accuracy import Truth
from suites.backends import Backend, Kernel, WarpCallable
from suites.gradients import Gradient

Inputs = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Failure:
    """The exception that bad inputs must raise, with a regular expression for its message."""

    exception: type[Exception]
    message: str


@dataclass(frozen=True)
class ErrorCase:
    """Inputs that must be refused.

    Attributes:
        name: Part of the test's id.
        inputs: Makes them.
        failures: What must be raised, for the backends that refuse them.
    """

    name: str
    inputs: Callable[[], Inputs]
    failures: Mapping[Backend, Failure]


@dataclass(frozen=True)
class Limitation:
    """Something known not to work: its test must fail, and says so when it no longer does.

    Attributes:
        reason: Why, with a link where there is one.
        backends: Where.
        dtypes: For which dtypes; empty means all.
        edges: For which edge cases; empty means the ordinary samples as well.
        checks: In which checks (:mod:`suites.checks`); empty means all.
    """

    reason: str
    backends: tuple[Backend, ...]
    dtypes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

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

    2**26 float32 are 256 MiB an array, far beyond any cache.
    """

    check: tuple[int, ...] = (1, 257, 2100)
    large: int = 100_003
    quick: tuple[int, ...] = (4096, 2**20)
    full: tuple[int, ...] = (1024, 4096, 2**16, 2**20, 2**22, 2**24)
    cuda_quick: tuple[int, ...] = (4096, 2**20, 2**26)
    cuda_full: tuple[int, ...] = (4096, 2**16, 2**20, 2**22, 2**24, 2**26)

    def of(self, platform: str, profile: str) -> tuple[int, ...]:
        """The sizes of a timing profile (``quick`` or ``full``) on a platform."""
        sizes: tuple[int, ...] = getattr(self, profile if platform == "cpu" else f"{platform}_{profile}")
        return sizes


@dataclass(frozen=True, kw_only=True, eq=False)
class Operator:
    """One operation, everything needed to prove and to time an implementation of it.

    Attributes:
        name: Its name in ids and records.
        version: Raised when its meaning, inputs or declared work change.
        outputs: Specs of the results for given inputs (anything with shape and dtype), as a list.
        reference: The ``jnp`` implementation, which returns a list of arrays.
        truth: True results and error bounds from inputs already rounded to the tested dtype, see
            :mod:`suites.accuracy`.
        kernels: The implementation in each other backend.
        dtypes: Names of the dtypes it is defined for.
        sample: Typical inputs for a dtype, a nominal size and a seed.
        edges: Edge cases by name, for a dtype.
        errors: Inputs that must be refused.
        bytes_read: Bytes that one call has to read at least.
        bytes_written: Bytes that one call has to write at least.
        flops: Floating-point (or integer) operations of one call.
        sizes: The ladder of nominal sizes.
        limitations: What is known not to work.
        gradient: How it is differentiated; None where its derivative is undefined or zero throughout.
        batchable: Whether ``jax.vmap`` over it makes sense.
        elementwise: Whether element i of each output depends on element i of the inputs that are as long, and on all of
            the others. Large inputs of such an operator may repeat themselves, see :mod:`suites.repetition`.
        shape: Of the long inputs of an elementwise operator, from the nominal size.
        after_csr: For an operator whose first inputs are ``data``, ``indices``, ``indptr`` of a CSR matrix: makes the
            others for a dtype, numbers of rows and columns, and a generator. With it, structures are drawn as well.
        tested: The backends that have cells; None for the reference and all that could have a kernel.
    """

    name: str
    version: int = 1
    outputs: Callable[..., list[jax.ShapeDtypeStruct]]
    reference: Callable[..., list[jax.Array]]
    truth: Callable[..., Truth]
    kernels: Mapping[Backend, Kernel]
    dtypes: tuple[str, ...]
    sample: Callable[[str, int, int], Inputs]
    edges: Callable[[str], Mapping[str, Inputs]] = lambda dtype: {}
    bytes_read: Callable[..., int]
    bytes_written: Callable[..., int]
    flops: Callable[..., int]
    errors: tuple[ErrorCase, ...] = ()
    sizes: Sizes = field(default_factory=Sizes)
    limitations: tuple[Limitation, ...] = ()
    gradient: Gradient | None = None
    batchable: bool = True
    elementwise: bool = False
    shape: Callable[[int], tuple[int, ...]] = lambda size: (size,)
    after_csr: Callable[[str, int, int, np.random.Generator], Inputs] | None = None
    tested: tuple[Backend, ...] | None = None

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

    def float_input(self, inputs: Inputs) -> int | None:
        """The index of the first input of real floats, with respect to which one may differentiate; None without."""
        return next((index for index, array in enumerate(inputs) if array.dtype.kind == "f"), None)

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


def total_bytes(*arrays: Any) -> int:
    """Bytes of arrays or specs."""
    return sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in arrays)
