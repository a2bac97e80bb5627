"""The interpreter ends cleanly with calls in flight: threads finish theirs, and unread results are dropped."""

from suites.unit.processes import run

PROGRAM = """
import faulthandler, threading
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import numba_kernel

faulthandler.dump_traceback_later(120, exit=True)  # a hang shows its stacks

@numba.njit
def slow(x, out):
    for i in range(x.size):
        value = x[i]
        for _ in range(100):
            value = value * 0.5 + 1
        out[i] = value

@numba.njit(parallel=True)
def parallel(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + 1

spec = jax.ShapeDtypeStruct((2000,), np.float32)
one, other = numba_kernel(slow, spec), numba_kernel(parallel, spec)
x = jnp.zeros(2000)
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, carry: other(one(carry)), x))
loop(x).block_until_ready()
done = []

def work():
    for _ in range(5):
        loop(x)
    done.append(1)
    if len(done) == 3:
        print("threads done", flush=True)

for _ in range(3):
    threading.Thread(target=work).start()
results = [loop(x) for _ in range(3)]
print("main leaves", flush=True)
"""


def test_the_interpreter_ends_cleanly_with_calls_in_flight(tmp_path):
    (tmp_path / "leaving.py").write_text(PROGRAM)
    ended = run(tmp_path / "leaving.py")
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["main leaves", "threads done"]
    assert ended.stderr == ""
