"""Identity of Warp kernels: another result is another identity, and the same kernel has the same one everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import jax_kernel
from bridge.languages.warp.generated import generated
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import warp_kernels as kernels

DOUBLE = wp.array(dtype=wp.float64)

# What the kernels refer to. The tests replace it after a kernel is wrapped.
CONSTANT = wp.constant(2.0)


def digest_of(kernel, platform, block_dim):
    return generated(kernel, platform, block_dim).digest


def uses_constant(x: DOUBLE, out: DOUBLE):
    out[wp.tid()] = wp.float64(CONSTANT)


CHANGES = [
    (uses_constant, "CONSTANT", 3.0),
]


@pytest.mark.parametrize(("function", "name", "value"), CHANGES, ids=[function.__name__ for function, *_ in CHANGES])
def test_another_result_is_another_identity(monkeypatch, function, name, value):
    """What a kernel refers to changes between wrap and trace."""
    with jax.enable_x64(True):
        kernel = kernels.forward_only(function)
        call = jax_kernel(kernel)
        before, result = digest_of(kernel, "cpu", None), call(jnp.zeros(1, np.float64))[0][0]
        monkeypatch.setitem(globals(), name, value)
        after, other = digest_of(kernel, "cpu", None), call(jnp.zeros(2, np.float64))[0][0]
        assert other != result
        assert after != before
        monkeypatch.undo()
        assert digest_of(kernel, "cpu", None) == before
        assert call(jnp.zeros(3, np.float64))[0][0] == result


def test_kernels_that_differ_beyond_what_warp_hashes(tmp_path):
    """Warp hashes 32 bits of a number. Its cache of compiled modules then has the code of another kernel."""

    def make(value):
        @wp.kernel(module="unique", enable_backward=False)
        def constant(out: DOUBLE):
            out[wp.tid()] = value

        return jax_kernel(constant, launch_dims=1)

    with jax.enable_x64(True):
        values = [wp.float64(1.0), wp.float64(1.0 + 2.0**-50), wp.float64(1.0 + 2.0**-49)]
        assert [make(value)()[0][0] for value in values] == [value.value for value in values]


def block_sizes(out: kernels.VECTOR):
    out[wp.tid()] = float(wp.block_dim())


def square(x: kernels.VECTOR, out: kernels.VECTOR):
    i = wp.tid()
    out[i] = x[i] * x[i]


class TestSettings:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("mode", "debug"), ("verify_fp", True), ("optimization_level", 1), ("ptx_target_arch", 90),
         ("cpu_compiler_flags", "-ffast-math")],
    )  # fmt: skip
    def test_a_setting_is_part_of_the_identity(self, monkeypatch, name, value):
        if not hasattr(wp.config, name):
            pytest.skip(f"this Warp has no setting {name}")
        kernel = kernels.forward_only(square)
        before = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
        monkeypatch.setattr(wp.config, name, value, raising=False)
        after = digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None)
        assert before[0] != after[0]
        assert before[1] != after[1]
        monkeypatch.undo()
        assert before == (digest_of(kernel, "cpu", None), digest_of(kernel, "cuda", None))
