"""Holds a broken kernel in cuTile."""

from suites.backends import BACKENDS
from suites.backends.cutile import CutileKernel, ct, kernel
from suites.mutants.mutant import table
from suites.ops.softmax import OPERATOR as SOFTMAX
from suites.ops.softmax.cutile import launch

MUTANTS, broken = table(BACKENDS["cutile_kernel"])


@kernel
def padded_softmax(x, out, ROWS: "ct.Constant[int]", BLOCK: "ct.Constant[int]"):
    i = ct.bid(0)
    row = ct.load(x, (i, 0), (ROWS, BLOCK), padding_mode=ct.PaddingMode.ZERO)
    weights = ct.exp(row - ct.max(row, axis=1, keepdims=True))
    ct.store(out, (i, 0), weights / ct.sum(weights, axis=1, keepdims=True))


broken(SOFTMAX, ("compiled", "edges"), "zeros after the end of a row count as elements", name="padded_rows_cutile")(
    CutileKernel(padded_softmax, launch)
)
