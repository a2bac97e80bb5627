"""Keeps the registry of backends: the kernel languages and targets that an operator can be implemented for.

A backend is one file. It defines a class of kernels (:class:`suites.Kernel`) and registers itself::

    C = register_backend(
        Backend(
            id="c",
            targets={"cpu": None},
            accept=lambda kernel: CFunction(kernel) if isinstance(kernel, str) else None,
            expected="the source of a C function",
            cure="Pass its text.",
        )
    )

From then on an operator may declare ``kernels={"c": ...}``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from suites.errors import OperatorError
from suites.kernels.kernel import Kernel
from suites.kernels.library import Library

BACKENDS: dict[str, Backend] = {}
"""The backends by id, in the order in which tables show them. :mod:`suites.backends` holds the built-in ones."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Backend:
    """A kernel language and the platforms it has code for.

    Two backends are equal only if they are the same object. Other processes find a pickled backend by its id.

    Attributes:
        id: Its name in operators, test ids and records: lower case letters, digits and ``_``.
        targets: The JAX platforms (``cpu``, ``cuda``) that it has code for. Each comes with the FFI target that a
            compiled program must show for every call, or None where XLA's own operations do the work.
        accept: Takes the object that an author declares as the kernel. Returns it as a ``Kernel``, or None if it is no
            kernel of this backend. Returns a ``Kernel`` of this backend unchanged.
        expected: A valid kernel in words, for the error about another object: "a function decorated with numba.njit".
        cure: The advice in the same error: "Decorate it with numba.njit."
        language: The name of the kernel language, if several backends share one.
        missing_dtypes: The dtypes that no kernel of this backend can have, each with the reason.
        missing: Returns why it cannot run on this machine; None if it can.
        has_adjoints: Whether the language generates adjoints, so that its kernels have gradients.
        takes_any_callable: Whether it accepts every Python callable, so that errors never suggest it for a kernel.
        serial_twin: The backend that runs the same kernels on one thread, for a backend with several threads.
        no_batches: Why JAX cannot batch calls of its kernels; None if it can.
        no_export: Why ``jax.export`` cannot serialise calls of its kernels; None if it can.
        library: The library whose functions stand for kernels, for a backend of peers: see the field ``peers`` of
            :class:`suites.Operator`. None for a kernel language.
    """

    id: str
    targets: Mapping[str, str | None]
    accept: Callable[[Any], Kernel | None]
    expected: str
    cure: str
    language: str = ""
    missing_dtypes: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None
    has_adjoints: bool = False
    takes_any_callable: bool = False
    serial_twin: Backend | None = None
    no_batches: str | None = None
    no_export: str | None = None
    library: Library | None = None

    @property
    def platforms(self) -> tuple[str, ...]:
        """JAX platforms it has code for."""
        return tuple(self.targets)

    @property
    def compiled(self) -> bool:
        """Whether custom calls run its kernels, rather than XLA's own operations."""
        return any(self.targets.values())

    def custom_call(self, platform: str) -> str | None:
        """The FFI target of its calls on a platform; None where a program has no custom call of the bridge."""
        return self.targets.get(platform)

    def shares_language(self, other: Backend) -> bool:
        """Whether kernels of both are written in one language."""
        return (self.language or self.id) == (other.language or other.id)

    def build(self, kernel: Any, outs: Sequence[Any], inputs: Sequence[Any] = ()) -> Callable[..., Any]:
        """Makes a JAX callable.

        Args:
            kernel: The kernel as an operator declares it for this backend, or as ``accept`` returns it.
            outs: A ``jax.ShapeDtypeStruct`` for each output.
            inputs: Anything with shape and dtype for each input; a launch may depend on them.

        Returns:
            A function of the inputs that returns a list of outputs.

        Raises:
            OperatorError: The kernel is not a kernel of this backend, or makes no function.
        """
        own = kernel if isinstance(kernel, Kernel) else self.accept(kernel)
        if own is None:
            raise OperatorError(f"{self.id}: got a {type(kernel).__name__}, expected {self.expected}. {self.cure}")
        try:
            call = own.build(inputs, outs)
        except Exception as error:
            error.add_note(f"(raised while the backend {self.id!r} made a JAX callable of its kernel)")
            raise
        return call if own.returns_list else _listed(call)

    def unsupported(self, platform: str, dtype: str) -> str | None:
        """Why no kernel of this backend can run there, or None if one can."""
        if platform not in self.platforms:
            return f"{self.id} runs on {', '.join(self.platforms)}, not on {platform}"
        uninstalled = self.library.missing() if self.library is not None else None
        return self.missing_dtypes.get(dtype) or self.missing() or uninstalled

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<backend {self.id}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_id, (self.id,)


def register_backend(backend: Backend) -> Backend:
    """Adds a backend to the registry, and returns it.

    Raises:
        OperatorError: Its id is taken or invalid, or one of its platforms does not exist.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", backend.id):
        raise OperatorError(f"Backend: id is {backend.id!r}, expected lower case letters, digits and _.")
    unknown = [platform for platform in backend.targets if platform not in ("cpu", "cuda")]
    if unknown or not backend.targets:
        raise OperatorError(
            f"Backend {backend.id!r}: targets has {list(backend.targets)}, expected 'cpu', 'cuda' or both."
        )
    if BACKENDS.setdefault(backend.id, backend) is not backend:
        raise OperatorError(f"Backend {backend.id!r}: the id is taken (registered: {', '.join(BACKENDS)}).")
    return backend


@functools.lru_cache(maxsize=1024)
def _listed(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its results in a list; the same one for the same function, so that JAX compiles it once."""
    if not callable(call):
        raise OperatorError(
            f"the method build of a kernel returned a {type(call).__name__}, expected a function of JAX arrays."
        )

    @functools.wraps(call, updated=())
    def listed(*arrays: Any) -> list[Any]:
        return jax.tree.leaves(call(*arrays))

    return listed


def _of_id(id_: str) -> Backend:
    """The backend with an id; pickle calls this to load a backend."""
    if id_ not in BACKENDS:
        raise OperatorError(
            f"no backend is registered as {id_!r} in this process (registered: {', '.join(BACKENDS)}). "
            "Import the file that registers it."
        )
    return BACKENDS[id_]
