"""The backends an operator can be implemented in, and how each makes a JAX callable of its kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bridge import numba_kernel

Kernel = Callable[..., Any]
"""What an operator declares for a backend: a function of JAX arrays for ``jnp``, a dispatcher for a kernel language."""


@dataclass(frozen=True)
class _Facts:
    """What is known of a backend.

    Attributes:
        id: Its name in test ids and records.
        platforms: JAX platforms it has code for.
        custom_call: The FFI target that a compiled program must show once per call, None for XLA's own operations.
        build: Makes a JAX callable of a kernel and the specs of its outputs.
        missing_dtypes: Dtypes that no kernel of this backend can take, each with the reason.
    """

    id: str
    platforms: tuple[str, ...]
    custom_call: str | None
    build: Callable[[Kernel, Any], Callable[..., Any]]
    missing_dtypes: tuple[tuple[str, str], ...] = ()


_NO_HALF = tuple((name, f"Numba's CPU target has no {name}") for name in ("float16", "bfloat16"))


class Backend(Enum):
    """A backend; the members are in the order in which tables and tests show them.

    A further backend is a member here, and its kernels in the files of the operators.
    """

    JNP = _Facts("jnp", ("cpu", "cuda"), None, lambda kernel, outs: kernel)
    NUMBA = _Facts("numba", ("cpu",), "bridge_cpu", numba_kernel, _NO_HALF)
    NUMBA_PARALLEL = _Facts("numba_parallel", ("cpu",), "bridge_cpu", numba_kernel, _NO_HALF)

    @property
    def id(self) -> str:
        """The name in test ids and records."""
        return self.value.id

    @property
    def custom_call(self) -> str | None:
        """The FFI target of its calls; None where a program has no custom call of ours."""
        return self.value.custom_call

    def build(self, kernel: Kernel, outs: Any) -> Callable[..., Any]:
        """Makes a JAX callable.

        Args:
            kernel: What the operator declares for this backend.
            outs: A ``jax.ShapeDtypeStruct`` per output, in a list.
        """
        return self.value.build(kernel, outs)

    def unsupported(self, platform: str, dtype: str) -> str | None:
        """Why no kernel of this backend can run there, or None if one can."""
        if platform not in self.value.platforms:
            return f"{self.id} runs on {', '.join(self.value.platforms)}, not on {platform}"
        return dict(self.value.missing_dtypes).get(dtype)

    def __str__(self) -> str:
        return self.id
