"""Freed memory is returned to the system by default, and kept when that is asked for: page faults tell."""

import pytest

from suites.bench import freed_memory
from suites.unit import processes

CALLS = """
import resource, sys
from suites.bench.freed_memory import MOST_KEPT_BYTES, keep_freed_pages, keeps_pages

kept_before, early = keeps_pages(), sys.argv[1] == "early"
if early:
    took_effect = keep_freed_pages()

import jax, jax.numpy as jnp
import numpy as np

function = jax.jit(lambda x: x + 1)
x = jnp.ones((MOST_KEPT_BYTES if not early else 2 * MOST_KEPT_BYTES) // 4, jnp.float32)
pages = x.nbytes // resource.getpagesize()

def faults(calls=8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        function(x).block_until_ready()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / calls / pages

def settled():
    return min(faults() for _ in range(12))

if not early:
    faults()
    before = settled()
    took_effect = keep_freed_pages()
    print(before, end=" ")
print(settled(), kept_before, took_effect, keeps_pages())
"""


def test_a_call_of_xla_finds_its_pages_once_freed_memory_is_kept():
    """The threads of XLA ran before it, and have arenas of their own."""
    before, after, *kept = processes.output("-c", CALLS, "late").split()
    assert kept == ["False", "True", "True"]
    assert float(before) > 0.9  # a fault for each page: large pages are off by default, or only for who asks
    assert float(after) < 0.02


def test_before_jax_is_used_blocks_of_any_size_are_kept():
    after, *kept = processes.output("-c", CALLS, "early").split()
    assert kept == ["False", "True", "True"]
    assert float(after) < 0.02


def test_without_glibc_it_says_so(monkeypatch):
    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: object())
    assert freed_memory.keep_freed_pages() is False


@pytest.mark.parametrize("answers", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 0)])
def test_a_setting_that_is_refused_is_no_effect(monkeypatch, answers):
    left = list(answers)

    class Library:
        def mallopt(self, name, value):
            return left.pop(0)

    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr(freed_memory, "keeps_pages", lambda: True)
    assert freed_memory.keep_freed_pages() is False


def test_an_allocator_that_accepts_the_settings_and_ignores_them_has_no_effect(monkeypatch):
    class Library:
        def mallopt(self, name, value):
            return 1

    monkeypatch.setattr(freed_memory.ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr(freed_memory, "_faults_of_a_block", lambda: 10_000)
    assert freed_memory.keep_freed_pages() is False
