"""Defines :class:`XLACustomKernel`, an operator with one kernel for each kernel language."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numba

from bridge.agreement import REFERENCE_BACKEND
from bridge.errors import BridgeError
from bridge.languages.extras import require_warp
from bridge.languages.language import Language, Standing
from bridge.operator.choice.registry import PLATFORMS, Configurations, Generator
from bridge.operator.custom_kernel import CustomKernel
from bridge.operator.tuning.toolchain import Toolchain


def _interpreted_on_cpu(generator: Callable[..., Any], platform: str) -> Callable[..., Any]:
    """The generator with ``interpret``, if it takes that: True where Pallas cannot compile."""
    if not callable(generator):  # registering it raises the error
        return generator
    parameters = inspect.signature(generator).parameters
    if "interpret" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return functools.partial(generator, interpret=platform == "cpu")
    return generator


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        language.name: language
        for language in (
            Language("numba", {"cpu": Standing.REGULAR}),
            Language("numba_cuda", {"cuda": Standing.REGULAR}),
            Language("warp", {"cuda": Standing.REGULAR, "cpu": Standing.ONE_THREAD}, require=require_warp),
            Language(
                "pallas",
                {"cpu": Standing.INTERPRETED, "cuda": Standing.REGULAR, "tpu": Standing.REGULAR},
                adapted=_interpreted_on_cpu,
            ),
            Language("triton", {"cuda": Standing.REGULAR}),
            Language("cuda_raw", {"cuda": Standing.REGULAR}),
            Language(REFERENCE_BACKEND, dict.fromkeys(PLATFORMS, Standing.REFERENCE)),
        )
    }
)


def _digest(value: Any) -> str | None:
    """The digest of a Warp kernel; None for anything else."""
    warp = sys.modules.get("warp")
    if warp is None or not isinstance(value, warp.Kernel):
        return None
    from bridge.languages.warp.compiled import digest_of  # Warp is optional

    try:
        return digest_of(value, "cpu", None)
    except BridgeError:
        return None


class XLACustomKernel(CustomKernel):
    """One logical operation, one kernel for each backend, called like any JAX function.

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
            ``outs`` of a call that does not pass it.
        has_side_effect: Run a call even if nothing uses its results. The kernel's own call must say so too.
    """

    _toolchain: ClassVar[Toolchain] = Toolchain(
        distributions=("numba", "numba-cuda", "warp-lang"),
        modules=frozenset({"numba", "warp"}),
        digest=_digest,
        threads=lambda: int(numba.config.NUMBA_NUM_THREADS),
    )

    def def_numba_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba"`` for ``"cpu"``, see :meth:`def_kernel`."""
        self._def_kernel_in(LANGUAGES["numba"], generator, asdefault, configurations)

    def def_numba_cuda_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba_cuda"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self._def_kernel_in(LANGUAGES["numba_cuda"], generator, asdefault, configurations)

    def def_warp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"warp"`` for ``"cuda"`` and for ``"cpu"``, see :meth:`def_kernel`.

        On the CPU, where Warp runs on one thread, it is the default only until another kernel language is registered
        there, unless ``asdefault`` is True.

        Raises:
            WarpUnavailableError: Warp is not installed; also an ``ImportError``.
        """
        self._def_kernel_in(LANGUAGES["warp"], generator, asdefault, configurations)

    def def_pallas_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"pallas"`` for ``"cuda"`` and ``"tpu"``, and interpreted for ``"cpu"``.

        Args:
            generator: See the class; its function calls ``jax.experimental.pallas.pallas_call``. If the generator takes
                a parameter ``interpret``, it is True for the CPU, where Pallas cannot compile, and False elsewhere.
            asdefault: Make it the default of all three platforms. Otherwise, the interpreted kernel is the last choice.
            configurations: See :meth:`def_kernel`.
        """
        self._def_kernel_in(LANGUAGES["pallas"], generator, asdefault, configurations)

    def def_triton_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"triton"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self._def_kernel_in(LANGUAGES["triton"], generator, asdefault, configurations)

    def def_cuda_raw_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"cuda_raw"`` for ``"cuda"``; its generator calls :func:`bridge.cuda_raw_kernel`."""
        self._def_kernel_in(LANGUAGES["cuda_raw"], generator, asdefault, configurations)

    def def_jnp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"jnp"``, plain JAX code, for every platform.

        It is the reference that other backends are compared with. It is the default of a platform that has no other
        kernels than interpreted ones.
        """
        self._def_kernel_in(LANGUAGES[REFERENCE_BACKEND], generator, asdefault, configurations)
