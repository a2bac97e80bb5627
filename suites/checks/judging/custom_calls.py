"""Proves from the text of a compiled program that it calls the kernel under test."""

from __future__ import annotations

from suites.backends.backend import Backend


def missing_custom_call(program: str, backend: Backend, platform: str, expected: int = 1) -> str | None:
    """Returns why a compiled program is no evidence for a backend, or None if it is.

    The program of a kernel backend must call the backend's target exactly ``expected`` times, and no other target of
    ours. The program of the reference must call none.

    Args:
        program: Text of the compiled program.
        backend: The backend under test.
        platform: ``cpu`` or ``cuda``.
        expected: Custom calls that the program must contain.
    """
    calls = {other.custom_call(where) for other in Backend for where in other.platforms}
    own = backend.custom_call(platform)
    for target in sorted(call for call in calls if call):
        found, wanted = program.count(f'custom_call_target="{target}"'), expected if target == own else 0
        if found != wanted:
            return f"the compiled program contains {found} calls of {target}, expected {wanted}"
    return None
