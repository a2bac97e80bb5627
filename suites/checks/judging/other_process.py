"""Runs kernels in a process that shows no sign of a test, as a stranger's program would run them.

A kernel may look where it runs: at environment variables, at loaded modules, at the number of devices or of threads, at
what ran before. So a server imports JAX, Numba and this package, but not pytest; its environment holds no variable of a
test session. It forks for each request. The child imports the file of operators, and calls the kernel.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from suites.cells import catalogue
from suites.cells.case import Case
from suites.checks.judging.bits import Array
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

THREADS = 3
"""Threads of Numba's parallel loops there: odd, and usually another number than here."""

_HIDDEN = ("PYTEST_", "KERNEL_BRIDGE_", "HYPOTHESIS_", "COVERAGE_", "NUMBA_NUM_THREADS", "GITHUB_", "CI")
"""How the names of the variables begin that a kernel must not find there."""

_SERVE = "from suites.checks.judging.serving import serve; serve()"


class OtherProcessError(RuntimeError):
    """The kernel raised, or brought its process down; the message is what the other process said."""


def run_elsewhere(case: Case, sources: Sequence[str], sets: Sequence[Inputs]) -> list[list[Array]]:
    """Calls a kernel in a new process, once for each set of inputs, and returns the results of each call.

    Args:
        case: The operator and the backend.
        sources: The files or modules that hold the operator.
        sets: The inputs.

    Raises:
        OtherProcessError: The process ended without results.
    """
    with tempfile.TemporaryDirectory(prefix="inputs-") as folder:
        given, made = Path(folder, "given.npz"), Path(folder, "made.npz")
        _save(given, sets)
        answer = _server().ask(
            sources=list(sources), operator=case.operator.name, backend=case.backend.id, platform=case.platform,
            given=str(given), made=str(made), folder=os.getcwd(),
        )  # fmt: skip
        if answer:
            raise OtherProcessError(answer)
        return _load(made)


class _Server:
    """The process that forks for each request; it ends when this process does."""

    def __init__(self) -> None:
        variables = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        variables["NUMBA_NUM_THREADS"] = str(THREADS)
        # The import path of this process: the current folder may be another one.
        variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        atexit.register(self.end)

    def ask(self, **request: Any) -> str:
        """Sends a request, and returns why it failed; empty if the results were written."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError as error:
            line = b""
            raise OtherProcessError(f"the process that starts others has ended: {error}") from error
        if not line:
            raise OtherProcessError("the process that starts others has ended")
        return str(json.loads(line))

    def end(self) -> None:
        """Ends the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def _save(path: Path, sets: Sequence[Sequence[Array]]) -> None:
    # NumPy's files do not know bfloat16: bytes, with the name of the dtype beside them.
    arrays: dict[str, Any] = {}
    for number, one in enumerate(sets):
        for index, array in enumerate(one):
            key = f"{number}/{index}/{array.dtype.name}/{'x'.join(map(str, array.shape))}"
            arrays[key] = np.frombuffer(array.tobytes(), np.uint8)
    np.savez(path, **arrays)


def _load(path: Path) -> list[list[Array]]:
    import jax.numpy as jnp

    found: dict[int, list[Array]] = {}
    with np.load(path) as held:
        for key in held:
            number, _, dtype, extents = key.split("/")
            shape = tuple(map(int, filter(None, extents.split("x"))))
            array = np.frombuffer(held[key].tobytes(), jnp.dtype(dtype)).reshape(shape)
            found.setdefault(int(number), []).append(array)
    return list(found.values())


def answer(request: dict[str, Any]) -> None:
    """Answers a request in the process that it was forked for: calls the kernel, and writes the results."""
    import jax

    from suites.backends.backend import Backend

    os.chdir(request["folder"])
    catalogue.use(request["sources"])
    operator = catalogue.operators()[request["operator"]]
    backend = next(each for each in Backend if each.id == request["backend"])
    results: list[list[Array]] = []
    for inputs in _load(Path(request["given"])):
        with precision(*(array.dtype for array in inputs)), jax.default_device(jax.devices(request["platform"])[0]):
            call = operator.build(backend, tuple(inputs))
            eager = [np.array(leaf) for leaf in jax.tree.leaves(call(*map(jax.device_put, inputs)))]
            compiled = [np.array(leaf) for leaf in jax.tree.leaves(jax.jit(call)(*inputs))]
        results += [eager, compiled]
    _save(Path(request["made"]), results)


def serve_on(requests: BinaryIO, answers: BinaryIO) -> None:
    """Forks for each line of ``requests``, and writes one line of ``answers``: why it failed, or an empty text."""
    for line in requests:
        request = json.loads(line)
        if all(source.startswith("suites.") for source in request["sources"]):
            # Once for all children. A user's file may start threads, which no child would have.
            catalogue.use(request["sources"])
        read, write = os.pipe()
        child = os.fork()
        if not child:
            said = ""
            try:
                answer(request)
            except BaseException as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                said = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            os.write(write, said.encode()[:4096] or b" ")
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read().decode(errors="replace")
        _, status = os.waitpid(child, 0)
        if not said:
            code = os.waitstatus_to_exitcode(status)
            said = f"the process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
        answers.write(json.dumps(said.strip()).encode() + b"\n")
        answers.flush()
