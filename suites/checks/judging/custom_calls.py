"""Proves from the text of a compiled program that it calls the kernel under test."""

from __future__ import annotations

from suites.backends.backend import Backend
from suites.backends.kernel import AtLeast


def missing_custom_call(program: str, backend: Backend, platform: str, expected: int | AtLeast = 1) -> str | None:
    """Returns why a compiled program is no evidence for a backend, or None if it is.

    The program of a kernel backend must call the backend's target exactly ``expected`` times, and no other target of
    ours. The program of the reference must call none.

    Args:
        program: Text of the compiled program.
        backend: The backend under test.
        platform: ``cpu`` or ``cuda``.
        expected: Custom calls that the program must contain. If only the least number is known, calls of all targets
            of ours count: an operator may run several languages on one platform.
    """
    calls = {other.custom_call(where) for other in Backend for where in other.platforms}
    if isinstance(expected, AtLeast):
        total = sum(program.count(f'custom_call_target="{target}"') for target in calls if target)
        if total < expected.calls:
            return f"the compiled program contains {total} calls of kernels, expected {expected}"
        return None
    own = backend.custom_call(platform)
    for target in sorted(call for call in calls if call):
        found, wanted = program.count(f'custom_call_target="{target}"'), expected if target == own else 0
        if found != wanted:
            return f"the compiled program contains {found} calls of {target}, expected {wanted}"
    return None
