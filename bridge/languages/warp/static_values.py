"""Stores the values that are compiled into a call of a Warp kernel, as hashable objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import warp as wp

from bridge.errors import ParameterError, SignatureError
from bridge.languages.warp.dtypes import NAMES, numpy_dtype
from bridge.languages.warp.parameters import Parameter


@dataclass(frozen=True)
class Static:
    """A value that is compiled into a call. Hashable; -0.0 differs from 0.0, and 1 from True."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, value: Any, kernel: wp.Kernel, parameter: Parameter) -> Static:
        """Stores the value that the caller passed for a parameter that is no array.

        Raises:
            ParameterError: The value is traced.
            SignatureError: It is no number, vector or matrix.
        """
        if isinstance(value, jax.core.Tracer):
            raise ParameterError(
                f"{kernel.key}: {parameter.name!r} is a traced value ({jax.typeof(value)}), but values are compiled "
                "into the call; only arrays vary. Mark it static in the surrounding jax.jit, or declare it in the "
                "kernel as a warp.array of one element."
            )
        try:
            if (scalar := getattr(value, "_wp_scalar_type_", None)) in NAMES:  # NumPy takes its halves for integers
                array = np.frombuffer(bytes(value), numpy_dtype(NAMES[scalar])).reshape(value._shape_)
            else:
                array = np.asarray(getattr(value, "value", value))  # Warp's scalars hold a Python number
        except (TypeError, ValueError) as error:
            raise _bad_value(kernel, parameter, value) from error
        if array.dtype.name not in NAMES.values():
            raise _bad_value(kernel, parameter, value)
        return cls(array.dtype.name, array.shape, array.tobytes())

    def array(self) -> np.ndarray[Any, Any]:
        """The value as a NumPy array."""
        return np.frombuffer(self.content, numpy_dtype(self.dtype)).reshape(self.shape)

    def as_type(self, kernel: wp.Kernel, parameter: Parameter) -> bytes:
        """The value in memory, in the type of a parameter.

        Raises:
            SignatureError: The parameter's type cannot hold it.
        """
        given, wanted = self.array(), numpy_dtype(str(parameter.dtype))
        with np.errstate(all="ignore"):
            converted = given.astype(wanted)
            exact = wanted.kind not in "biu" or np.array_equal(converted, given)
            overflown = np.any(np.isinf(converted.astype(float)) & np.isfinite(given.astype(float)))
        if given.shape != (parameter.inner or ()) or not exact or overflown:
            raise _bad_value(kernel, parameter, given.tolist() if given.ndim == 0 else tuple(given.tolist()))
        return converted.tobytes()


def _bad_value(kernel: wp.Kernel, parameter: Parameter, value: Any) -> SignatureError:
    inner = f" of shape {parameter.inner}" if parameter.inner else ""
    return SignatureError(
        f"{kernel.key}: {parameter.name!r} is {value!r}, expected a value that {parameter.dtype or 'a Warp type'}"
        f"{inner} can hold."
    )
