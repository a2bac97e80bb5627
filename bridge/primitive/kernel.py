"""An operator with several kernels: :class:`XLACustomKernel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from bridge.errors import ParameterError, SignatureError
from bridge.primitive.dispatch import choose
from bridge.primitive.operator import OperatorCall, apply
from bridge.primitive.registry import Generator, Registry
from bridge.signature import Outputs


class XLACustomKernel:
    """One logical operation, one kernel for each backend, called like any JAX function.

    A kernel is registered as a *generator*: a function that receives the keyword parameters of the call, and ``outs``
    as a tuple of ``jax.ShapeDtypeStruct``, and returns a function of the input arrays. That function returns one array,
    or a tuple or list of them; usually it calls :func:`bridge.numba_kernel`, but it may be any JAX code.

    JAX decides on which platform a computation runs; the default backend of that platform then runs it, or the one that
    the call names. A kernel registered or a default changed later takes effect at the next call; programs that the
    caller has compiled stay as they are. Operators of the same name are independent.

    Example::

        scale_op = XLACustomKernel("scale")

        def generator(outs, factor, **_):
            @numba.njit
            def scale(x, out):
                for i in range(out.size):
                    out[i] = factor * x[i]
            return numba_kernel(scale, outs[0])

        scale_op.def_numba_kernel(generator)
        y = scale_op(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype), factor=3.0)

    Args:
        name: Names the operator in errors and in jaxprs.
    """

    def __init__(self, name: str):
        if not isinstance(name, str) or not name:
            raise TypeError(f"XLACustomKernel got the name {name!r}, expected a non-empty string.")
        self.name = name
        self._registry = Registry(name)

    def __repr__(self) -> str:
        return f"XLACustomKernel({self.name!r}, {self._registry.snapshot.describe()})"

    @property
    def _kernels(self) -> dict[str, dict[str, Generator]]:
        """The registered generators by platform and backend; a copy."""
        return {platform: dict(backends) for platform, backends in self._registry.snapshot.kernels.items()}

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform; a copy. Change it with :meth:`set_default`."""
        return dict(self._registry.snapshot.defaults)

    def def_kernel(self, backend: str, platform: str, generator: Generator, asdefault: bool = False) -> None:
        """Registers a kernel, or replaces the one of this backend and platform.

        Args:
            backend: Any name; what ``backend=`` of a call refers to.
            platform: ``"cpu"``, ``"cuda"`` (or ``"gpu"``) or ``"tpu"``.
            generator: See the class.
            asdefault: Make it the platform's default; the first kernel of a platform is the default anyway.

        Raises:
            BackendError: The platform is unknown.
            TypeError: The generator is not callable.
        """
        self._registry.register(backend, platform, generator, asdefault)

    def def_numba_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"numba"`` for ``"cpu"``, see :meth:`def_kernel`."""
        self.def_kernel("numba", "cpu", generator, asdefault)

    def def_numba_cuda_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"numba_cuda"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self.def_kernel("numba_cuda", "cuda", generator, asdefault)

    def def_warp_kernel(self, generator: Generator, asdefault: bool = False) -> None:
        """Registers the backend ``"warp"`` for ``"cuda"`` and for ``"cpu"``, see :meth:`def_kernel`.

        On the CPU, where Warp runs on one thread, it is the default only until another backend is registered there,
        unless ``asdefault`` is True.
        """
        self.def_kernel("warp", "cuda", generator, asdefault)
        self._registry.register("warp", "cpu", generator, asdefault, last_resort=True)

    def set_default(self, platform: str, backend: str) -> None:
        """Makes a registered backend the default of a platform, from the next call on.

        Raises:
            BackendError: The platform is unknown, or the backend is not registered for it.
        """
        self._registry.set_default(platform, backend)

    def __call__(self, *args: Any, outs: Any, backend: str | None = None, **parameters: Any) -> Any:
        """Runs the operator.

        Args:
            *args: Arrays, of any shape and dtype that the kernels accept.
            outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them.
            backend: The backend to run; by default that of the platform.
            **parameters: Static values for the generator; hashable.

        Returns:
            Arrays in the structure of ``outs``.

        Raises:
            BackendError: No kernel is registered for the request, or (when lowered) for the platform.
            ParameterError: A parameter is a traced value, an array, or not hashable.
            SignatureError: ``outs`` is malformed or (when lowered) not what the kernel returns; or an argument is a
                container of arrays.
        """
        outputs = Outputs.of(outs, self.name)
        outputs.check_precision(self.name)
        for index, arg in enumerate(args):
            if not jax.tree_util.all_leaves([arg]):
                raise SignatureError(
                    f"{self.name}: argument {index} is a {type(arg).__name__}, expected an array. "
                    "Pass each array as an argument of its own."
                )
        choice = choose(self._registry.snapshot, backend, self.name)
        call = OperatorCall(self.name, choice, outputs.specs, self._static(parameters))
        return outputs.unflatten(apply(call, *args))

    def _static(self, parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        for key, value in parameters.items():
            if isinstance(value, jax.core.Tracer):
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is a traced value ({jax.typeof(value)}), but parameters are "
                    f"compiled into the kernel. Mark it static in the surrounding jax.jit (static_argnames={key!r}), "
                    "or pass it to the kernel as an array argument."
                )
            try:
                hash(value)
            except TypeError as error:
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is {value!r} of type {type(value).__name__}, which is not "
                    "hashable, but parameters are compiled into the kernel. Pass a number, string or tuple; pass "
                    "arrays as arguments."
                ) from error
        return tuple(sorted(parameters.items()))
