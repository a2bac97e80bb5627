"""Faults: where they fit into a source, and what they make of it."""

import ast

import pytest

from suites.mutation.cpp_faults import cpp_faults
from suites.mutation.fault import KINDS
from suites.mutation.python_faults import python_faults

KERNEL = '''
import numba

WIDTH = 4


@numba.njit
def scale(x, out, n):
    """Scales 2 vectors, if any."""
    for i in range(n):
        if x[i] > 0 and n != 3:  # only 1 of them
            out[i] = 2.5 * x[i]
    total = x.dtype.type(0)
    for i in range(0, n, 4):
        total += min(x[i], x[n - i])
        if not total:
            return
    out[0] = total if total < 1 else abs(total)


def other(x):
    return x + 1
'''
FIRST_LINE = 7

LAUNCH = """
from suites.backends.numba_cuda import cuda, device, kernel


@kernel
def add(x, out):
    place = cuda.threadIdx.x + np.int64(cuda.blockIdx.x)
    cuda.syncthreads()
    cuda.atomic.add(out, place, x[place])
    while place < x.shape[0]:
        place += 1
        break


def launch(size, b):
    return -(-size // b), (size + b - 1) // b
"""

CPP = """
template <typename T> __global__ void kernel(const T* x, T* out, long long size) {
    // one of 2 comments: i < size
    __shared__ double part[256];
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    part[threadIdx.x] = i < size && i >= 0 ? x[i] : T(0);
    __syncthreads();
    if (i < size) { atomicAdd(&out[i / 2], fmax(part[threadIdx.x], -x[i])); }
    out[i] = x[i] + T(1.5);
    return;
}
"""


def found(source, *first_lines):
    """The changed lines of each fault in these functions, with its kind."""
    return {
        (fault.kind, fault.diff(source).splitlines()[-1].strip("+ ")) for fault in python_faults(source, {*first_lines})
    }


def test_faults_of_a_loop():
    faults = found(KERNEL, FIRST_LINE)
    assert ("bound", "for i in range(n - 1):") in faults
    assert ("bound", "for i in range(n + 1):") in faults
    assert ("bound", "for i in range(1, n):") in faults
    assert ("bound", "for i in range(0 + 1, n, 4):") in faults
    assert ("tail", "for i in range(n // 8 * 8):") in faults


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("compare", "if (x[i] >= 0) and n != 3:  # only 1 of them"),
        ("compare", "if (x[i] < 0) and n != 3:  # only 1 of them"),
        ("compare", "if x[i] > 0 and (n == 3):  # only 1 of them"),
        ("logic", "if (x[i] > 0 or n != 3):  # only 1 of them"),
        ("guard", "if True:  # only 1 of them"),
        ("constant", "if x[i] > 0 and n != 4:  # only 1 of them"),
        ("constant", "out[i] = 2.525 * x[i]"),
        ("arithmetic", "out[i] = (2.5 + x[i])"),
        ("index", "out[i] = 2.5 * x[i + 1]"),
        ("statement", "pass"),
        ("statement", "total = min(x[i], x[n - i])"),
        ("minmax", "total += max(x[i], x[n - i])"),
        ("operands", "total += min(x[i], x[(i - n)])"),
        ("narrow", "total = np.float32(0)"),
        ("initial", "total = x.dtype.type(1)"),
        ("exit", "pass"),
        ("logic", "if total:"),
        ("call", "out[0] = total if total < 1 else total"),
        ("guard", "out[0] = abs(total)"),
    ],
)
def test_faults_of_a_statement(kind, line):
    assert (kind, line) in found(KERNEL, FIRST_LINE)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("sync", "pass"),
        ("atomic", "out[place] = out[place] + x[place]"),
        ("axis", "place = cuda.threadIdx.y + np.int64(cuda.blockIdx.x)"),
        ("axis", "while place < x.shape[1]:"),
        ("narrow", "place = cuda.threadIdx.x + np.int32(cuda.blockIdx.x)"),
        ("index", "cuda.atomic.add(out, place, x[-~place])"),
        ("exit", "pass"),
        ("tail", "return (size // b), (size + b - 1) // b"),
        ("tail", "return -(-size // b), (size // b)"),
    ],
)
def test_faults_of_a_kernel_for_cuda_and_of_its_launch(kind, line):
    assert (kind, line) in found(LAUNCH, 5, 15)


def test_faults_know_whether_a_compiler_sees_them():
    kinds = {fault.line: fault.in_kernel for fault in python_faults(LAUNCH, {5, 15})}
    assert kinds[7]
    assert not kinds[16]


@pytest.mark.parametrize(("source", "lines"), [(KERNEL, {FIRST_LINE}), (LAUNCH, {5, 15})], ids=["kernel", "launch"])
def test_each_fault_changes_the_code_and_nothing_around_it(source, lines):
    faults = python_faults(source, lines)
    texts = [fault.applied(source) for fault in faults]
    assert len({*texts}) == len(texts)
    for fault, text in zip(faults, texts, strict=True):
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(source))
        assert text.count("\n") == source.count("\n")
        assert fault.kind in KINDS
        assert fault.diff(source).count("\n") == 1  # one line is another one


def test_docstrings_decorators_and_other_functions_have_no_faults():
    for fault in python_faults(KERNEL, {FIRST_LINE}):
        text = fault.applied(KERNEL)
        assert "WIDTH = 4\n" in text
        assert "@numba.njit\n" in text
        assert '"""Scales 2 vectors, if any."""' in text
        assert "return x + 1" in text


def test_offsets_count_characters_of_any_width():
    source = "def f(x, out):\n    out[0] = 'µ→' == x[0] - 1\n"
    assert ("arithmetic", "out[0] = 'µ→' == (x[0] + 1)") in found(source, 1)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("narrow", "__shared__ float part[256];"),
        ("narrow", "int i = (long long)blockIdx.x * 256 + threadIdx.x;"),
        ("arithmetic", "long long i = (long long)blockIdx.x + 256 + threadIdx.x;"),
        ("constant", "long long i = (long long)blockIdx.x * 255 + threadIdx.x;"),
        ("compare", "part[threadIdx.x] = i <= size && i >= 0 ? x[i] : T(0);"),
        ("logic", "part[threadIdx.x] = i < size || i >= 0 ? x[i] : T(0);"),
        ("initial", "part[threadIdx.x] = i < size && i >= 0 ? x[i] : T(1);"),
        ("guard", "part[threadIdx.x] = i < size && i >= 0 ? T(0) : x[i];"),
        ("guard", "if (true) { atomicAdd(&out[i / 2], fmax(part[threadIdx.x], -x[i])); }"),
        ("atomic", "if (i < size) { out[i / 2] += fmax(part[threadIdx.x], -x[i]); }"),
        ("minmax", "if (i < size) { atomicAdd(&out[i / 2], fmin(part[threadIdx.x], -x[i])); }"),
        ("logic", "if (i < size) { atomicAdd(&out[i / 2], fmax(part[threadIdx.x], x[i])); }"),
        ("sync", ";"),
        ("index", "out[i] = x[(i) + 1] + T(1.5);"),
        ("statement", ";"),
        ("exit", ";"),
    ],
)
def test_faults_in_cpp(kind, line):
    lines = {(fault.kind, fault.diff(CPP).splitlines()[-1].strip("+ ")) for fault in cpp_faults(CPP)}
    assert (kind, line) in lines


def test_comments_types_and_parameters_in_cpp_have_no_faults():
    for fault in cpp_faults(CPP):
        text = fault.applied(CPP)
        assert text != CPP
        assert "template <typename T> __global__ void kernel(const T* x, T* out, long long size) {" in text
        assert "// one of 2 comments: i < size" in text
        assert fault.kind in KINDS
