"""Imports inside a kernel's body are hoisted without changing what the kernel does."""

import inspect
import math

import pytest

import bridge
from bridge.source.imports import hoist_imports


def test_a_function_without_imports_is_returned_as_it_is():
    def plain(x):
        return math.sin(x)

    assert hoist_imports(plain) is plain


def test_every_form_of_import_is_hoisted():
    def kernel(x):
        """Docstring first."""
        import math
        import os.path as path
        from math import cos
        from math import sin as sine

        if x > 0:
            import cmath

            return cmath.sqrt(x)
        return math.floor(x) + sine(x) + cos(x) + len(path.sep)

    hoisted = hoist_imports(kernel)
    assert hoisted(-1.5) == kernel(-1.5)
    assert hoisted(4.0) == kernel(4.0)
    assert "IMPORT_NAME" not in {instruction.opname for instruction in __import__("dis").get_instructions(hoisted)}


def test_closures_defaults_and_keyword_defaults_survive():
    offset, scale = 10, 3

    def kernel(x, y=2, *, z=5):
        import math

        return math.floor(scale * x) + y + z + offset

    hoisted = hoist_imports(kernel)
    assert hoisted(1.0) == kernel(1.0) == 3 + 2 + 5 + 10
    assert hoisted(1.0, 0, z=0) == 13
    assert hoisted.__name__ == "kernel"


def test_line_numbers_stay_those_of_the_source():
    def kernel(x):
        import math

        return math.sqrt(x)

    _, first = inspect.getsourcelines(kernel)
    lines = {line for *_, line in hoist_imports(kernel).__code__.co_lines() if line}
    assert max(lines) == first + 3


def test_without_source_the_error_says_what_to_do():
    namespace = {}
    exec("def kernel(x):\n    import math\n    return math.sqrt(x)\n", namespace)
    with pytest.raises(bridge.KernelCompileError, match=r"source is not available.*Move the import"):
        hoist_imports(namespace["kernel"])


def test_an_import_that_fails_names_the_module():
    def kernel(x):
        import no_such_module  # type: ignore[import-not-found]

        return no_such_module.f(x)

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        hoist_imports(kernel)


def test_source_that_has_changed_since_is_refused(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("def kernel(x):\n    import math\n    return math.sqrt(x)\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    assert hoist_imports(namespace["kernel"])(4.0) == 2
    path.write_text("def kernel(x):\n    import math\n    return math.exp(x)\n")
    with pytest.raises(bridge.KernelCompileError, match="has changed since it was imported"):
        hoist_imports(namespace["kernel"])
