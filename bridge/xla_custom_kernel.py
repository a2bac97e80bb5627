"""Defines :class:`XLACustomKernel`, an operator with one kernel for each kernel language."""

from __future__ import annotations

from bridge.languages import cuda_cpp, cutile, jax_languages, numba_cpu, numba_cuda, warp
from bridge.operator.custom_kernel import CustomKernel
from bridge.operator.operator_call import Generator
from bridge.operator.registry import Configurations


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

    def def_numba_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba"`` for ``"cpu"``, see :meth:`def_kernel`."""
        self._def_kernel_in(numba_cpu.LANGUAGE, generator, asdefault, configurations)

    def def_numba_cuda_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"numba_cuda"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self._def_kernel_in(numba_cuda.LANGUAGE, generator, asdefault, configurations)

    def def_warp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"warp"`` for ``"cuda"`` and for ``"cpu"``, see :meth:`def_kernel`.

        On the CPU, Warp runs on one thread. There it is the default only until a kernel of higher standing, such as a
        Numba kernel, is registered, unless ``asdefault`` is True.

        Raises:
            WarpUnavailableError: Warp is not installed; also an ``ImportError``.
        """
        self._def_kernel_in(warp.LANGUAGE, generator, asdefault, configurations)

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
        self._def_kernel_in(jax_languages.PALLAS, generator, asdefault, configurations)

    def def_triton_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"triton"`` for ``"cuda"``, see :meth:`def_kernel`."""
        self._def_kernel_in(jax_languages.TRITON, generator, asdefault, configurations)

    def def_cutile_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"cutile"`` for ``"cuda"``; its generator calls :func:`bridge.cutile_kernel`."""
        self._def_kernel_in(cutile.LANGUAGE, generator, asdefault, configurations)

    def def_cuda_raw_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"cuda_raw"`` for ``"cuda"``; its generator calls :func:`bridge.cuda_raw_kernel`."""
        self._def_kernel_in(cuda_cpp.LANGUAGE, generator, asdefault, configurations)

    def def_jnp_kernel(
        self, generator: Generator, asdefault: bool = False, configurations: Configurations | None = None
    ) -> None:
        """Registers the backend ``"jnp"``, plain JAX code, for every platform.

        It is the reference that other backends are compared with. It is the default of a platform whose other kernels
        are all interpreted.
        """
        self._def_kernel_in(jax_languages.JNP, generator, asdefault, configurations)
