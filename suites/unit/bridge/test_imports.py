"""Import statements in the body of a kernel keep their meaning, also where a condition decides between them."""

import dis

import jax
import jax.numpy as jnp
import numba
import pytest

import bridge
from bridge.source.imports import with_imports_done


def all_forms(x, y=2, *, z=5):
    """Docstring first."""
    import math as m
    from math import cos
    from math import sin as sine

    if x > 0:
        import cmath

        return cmath.sqrt(x) + OFFSET
    return m.floor(x) + sine(x) + cos(x) + y + z


OFFSET = 10


@pytest.mark.parametrize("x", [-1.5, 4.0])
def test_imported_names_keep_their_meaning_and_arguments_their_defaults(x):
    done = with_imports_done(all_forms)
    assert done(x) == all_forms(x)
    assert done(x, 0, z=0) == all_forms(x, 0, z=0)
    assert not any(each.opname.startswith("IMPORT") for each in dis.get_instructions(done))
    assert list(done.__code__.co_lines()) == list(all_forms.__code__.co_lines())


def test_one_name_for_two_functions_is_refused_and_never_the_wrong_one():
    def kernel(x, out):
        if x[0] > 0:
            from math import exp as f
        else:
            from math import cos as f
        out[0] = f(x[0])

    call = bridge.numba_kernel(numba.njit(kernel), jax.ShapeDtypeStruct((1,), jnp.float32))
    with pytest.raises(bridge.KernelCompileError, match=r"kernel .*test_imports\.py"):
        call(jnp.ones(1))


def test_an_import_of_a_form_that_is_not_known_says_what_to_do():
    def kernel(x):
        import os.path as path

        return len(path.sep) + x

    with pytest.raises(bridge.KernelCompileError, match=r"kernel imports inside its body.*Move the import to the top"):
        with_imports_done(kernel)
