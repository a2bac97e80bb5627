"""Run in a process of its own, with NUMBA_ENABLE_CUDASIM=1: raw kernels in Numba's simulator, judged against truth.

What the simulator can show: that no barrier is missed, that threads agree on who writes what, that tails and rows are
taken exactly once. It runs a Python thread per CUDA thread, so inputs are small.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np
from numba import cuda

from reports import Status
from suites.backends.backend import Backend
from suites.backends.numba_cuda import THREADS, CudaKernel
from suites.mutants import mutants
from suites.numerics.verdict import judge
from suites.ops import operators

KINDS = (Backend.NUMBA_CUDA, Backend.NUMBA_CUDA_REPLAY)
"""The backends whose kernels run."""

SIZES = {"sum": 5000, "mean_std": 5000, "cumsum": 9000, "nbody": 270, "matvec": 784, "softmax": 784}
"""Nominal sizes, where 700 is too small for the second pass of a reduction or a scan, too large for pairs, or has rows
that are no whole number of vectors."""

EDGES = (
    "empty",
    "one",
    "nan",
    "no_rows",
    "all_rows_empty",
    "first_and_last_empty",
    "one_long_row",
    "some_long_rows",
    "no_values",
    "long_and_narrow",
    "odd_columns",
    "long_row_and_many_columns",
    "odd",
    "wide",
    "nan_and_inf",
    "no_depth",
    "few_elements",
    "few_values",
    "zeros",
    "halves",
)
"""Edge cases in which threads could disagree."""

LEFT_OUT = {("csr_matmat", "some_long_rows"), ("csr_matmat", "one_long_row")}
"""Slow cells whose threads do nothing that they do not do in other cells."""


def outputs(operator, inputs):
    """Arrays to be written, filled with what no kernel would write."""
    outs = operator.outputs(*inputs)
    return [np.full(out.shape, 0x5A, np.uint8 if out.dtype == bool else out.dtype) for out in outs]


def run(operator, kernel, inputs):
    """The results of one of an operator's CUDA kernels in the simulator."""
    results = outputs(operator, inputs)
    arrays = [np.array(array) for array in inputs]
    if isinstance(kernel, CudaKernel):
        launch = kernel.launch(inputs, results)
        for given, result in launch.get("input_output_aliases", {}).items():
            results[result] = np.array(inputs[given])  # what XLA has copied there if the input is still needed
        grid = launch["grid"] if "grid" in launch else -(-launch["launch_dims"] // THREADS)
        if np.all(grid):
            how = grid, launch.get("block", THREADS), 0, launch.get("shared_mem", 0)
            kernel.kernel_of(inputs, results)[how](*arrays, *results)
    else:
        devices = [cuda.to_device(array) for array in (*arrays, *results)]
        kernel.function(*devices, 0)
        results = [device.copy_to_host() for device in devices[len(arrays) :]]
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(arrays, inputs, strict=True))
    return results


def main(names):
    """Judges each operator or mutant given by name; returns how many cells were wrong. One is enough for a mutant."""
    sys.setswitchinterval(1e-3)  # threads that wait for each other take turns more often than every 5 ms
    wrong = 0
    for name in names:
        operator_name = name.partition("~")[0]
        operator = mutants()[name].operator if name in mutants() else operators()[name]
        edges = {edge: inputs for edge, inputs in operator.edges("float32").items() if edge in EDGES}
        cells = {"sample": operator.sample("float32", SIZES.get(operator_name, 700), 1)} | edges
        cells = {cell: inputs for cell, inputs in cells.items() if (operator_name, cell) not in LEFT_OUT}
        kernels = [operator.kernels[each] for each in KINDS if each in operator.kernels]
        for kernel, (cell, inputs) in itertools.product(kernels, cells.items()):
            verdict = judge(run(operator, kernel, inputs), operator.truth(*inputs))
            wrong += verdict.status is not Status.PASSED
            print(f"{name} {type(kernel).__name__} {cell}: {verdict.status} {verdict.reason or ''}")
            if name in mutants() and verdict.status is not Status.PASSED:
                break
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
