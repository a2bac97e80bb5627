"""Defines :class:`XLACustomKernel`, an operator with one kernel for each kernel language."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from bridge.operator.custom_kernel import CustomKernel
from bridge.operator.operator_call import Generator
from bridge.operator.registry import Configurations
from bridge.table import LANGUAGES, Language


class Registers(Protocol):
    """Registers a kernel of one language, see :meth:`bridge.XLACustomKernel.def_kernel`."""

    def __call__(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None: ...


class _In:
    """The method of an operator that registers a kernel of a language."""

    def __init__(self, name: str, about: str = ""):
        self._language: Language = LANGUAGES[name]
        platforms = " and ".join(f'``"{each}"``' for each in self._language.platforms)
        function = self._language.function
        calls = f" Its generator calls :func:`bridge.{function}`." if function else ""
        self.__doc__ = (
            f'Registers the backend ``"{name}"`` for {platforms}, see :meth:`def_kernel`.{calls}{about and f" {about}"}'
        )

    def __get__(self, operator: Any, owner: type | None = None) -> Registers:
        if operator is None:
            return self  # type: ignore[return-value]  # which shows its documentation
        return functools.partial(operator.def_kernel_in, self._language)


class XLACustomKernel(CustomKernel):
    """An operation with one kernel for each backend, called like any JAX function.

    A kernel is registered as a *generator*: a function that receives the keyword parameters of the call, and ``outs``
    as a tuple of ``jax.ShapeDtypeStruct``, and returns a function of the input arrays. That function returns one array,
    or a tuple or list of them. Usually it calls :func:`bridge.numba_kernel`, but it may be any JAX code.

    JAX decides on which platform a computation runs. The default backend of that platform then runs it, or the backend
    that the call names. A kernel or default that is registered later takes effect at the next call; programs that are
    already compiled do not change. Operators of the same name are independent.

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

    Under ``jax.vmap`` the selected kernel runs the batch; :meth:`def_batching` declares another way. Derivatives are
    declared with :meth:`def_vjp`, :meth:`def_jvp` or :meth:`def_transpose`. Under ``shard_map`` each device runs the
    kernel on its part; :meth:`def_partitioning` declares which dimensions plain ``jax.jit`` may split.

    Args:
        name: Names the operator in errors and in jaxprs.
        outs: A function of the arrays (of anything with shape and dtype) and of the keyword parameters. It returns
            ``outs`` for calls that do not pass it. It runs when JAX traces a call, so it depends on nothing else.
        has_side_effect: Run a call even if nothing uses its results. The kernel's own call must say so too.
    """

    def_numba_kernel = _In("numba")
    def_numba_cuda_kernel = _In("numba_cuda")
    def_warp_kernel = _In(
        "warp",
        "On the CPU, Warp runs on one thread. There it is the default only until a kernel of higher standing, as one "
        "of Numba, is registered, unless ``asdefault`` is True. Without Warp it raises a WarpUnavailableError.",
    )
    def_cuda_raw_kernel = _In("cuda_raw")
    def_triton_kernel = _In("triton")
    def_cutile_kernel = _In("cutile")
    def_pallas_kernel = _In(
        "pallas",
        "Its generator calls ``jax.experimental.pallas.pallas_call``. A parameter ``interpret`` of the generator is "
        "True for the CPU, where Pallas cannot compile. Unless ``asdefault`` is True, the interpreted "
        "kernel is the last choice.",
    )
    def_jnp_kernel = _In(
        "jnp",
        "It is plain JAX code, the reference that other backends are compared with. It is the default of a platform "
        "whose other kernels are all interpreted.",
    )
