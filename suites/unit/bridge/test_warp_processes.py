"""jax_kernel across processes: exported programs and the persistent compilation cache."""

import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import bridge
from bridge import jax_kernel
from suites.unit.bridge import warp_kernels as kernels
from suites.unit.processes import output

X = jnp.linspace(0.0, 1.0, 8)
ANOTHER = textwrap.dedent(
    """
    from bridge import jax_kernel
    from suites.unit.bridge.warp_kernels import VECTOR, Any, wp

    @wp.kernel(module="unique", enable_backward=False)
    def scale(x: VECTOR, factor: float, out: VECTOR):
        i = wp.tid()
        out[i] = factor * x[i] + 1.0

    def of_any_type():
        @wp.kernel(module="unique", enable_backward=False)
        def scale(x: wp.array(dtype=Any), factor: Any, out: wp.array(dtype=Any)):
            i = wp.tid()
            out[i] = x[i] + factor
        return scale

    kept = jax_kernel(scale), jax_kernel(of_any_type())
    """
)
RUN = textwrap.dedent(
    """
    import sys, jax, jax.export, jax.numpy as jnp
    import bridge

    exported = jax.export.deserialize(open(sys.argv[1], "rb").read())
    x = jnp.linspace(0.0, 1.0, 8)

    def attempt():
        try:
            print([each.tolist() for each in exported.call(x)])
        except jax.errors.JaxRuntimeError as error:
            print(str(error).partition("BridgeError: ")[2].splitlines()[0])

    attempt()
    import another
    attempt()
    from suites.unit.bridge import warp_kernels as kernels
    for kernel in (kernels.scale, kernels.scale_any, kernels.logistic):
        bridge.jax_kernel(kernel)
    attempt()
    bridge.release()
    attempt()
    """
)


def program(x):
    """Kernels with a value, of a generic type, in a batch and differentiated."""
    logistic = jax_kernel(kernels.logistic, launch_dims=8, output_dims=8)
    (scaled,) = jax_kernel(kernels.scale)(x, 3.0)
    (counted,) = jax_kernel(kernels.scale_any)(jnp.arange(3), 2)
    gradients = jax.vmap(jax.grad(lambda rate, x: logistic(rate, x)[0].sum(), 1), (0, None))(jnp.ones((2, 1)), x)
    return scaled, counted, gradients


def test_an_exported_program_runs_where_the_same_kernels_are_defined_and_not_before(tmp_path):
    blob = tmp_path / "program.bin"
    exported = jax.export.export(jax.jit(program), platforms=("cpu",), disabled_checks=bridge.export_checks())(X)
    blob.write_bytes(exported.serialize())
    (tmp_path / "another.py").write_text(ANOTHER)
    (tmp_path / "run.py").write_text(RUN)
    nothing, another, same, again = output(tmp_path / "run.py", blob).splitlines()
    for refused in (nothing, another):
        assert "this program calls the " in refused
        assert "arp kernel" in refused
    assert "which this process has not defined. Call jax_kernel on the same kernel" in another
    assert same == again == str([np.asarray(each).tolist() for each in jax.jit(program)(X)])
