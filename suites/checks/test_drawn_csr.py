"""Checks a kernel of a sparse operator on CSR structures that Hypothesis draws."""

from typing import Any

import numpy as np

from suites.cells.case import Case
from suites.cells.tables.calls import SPARSE_KERNELS
from suites.checks.drawn.drawing import for_drawn
from suites.checks.drawn.drawn_arrays import SEEDS
from suites.checks.drawn.drawn_sparse import csr
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check


@check(
    "drawn csr",
    sees="sparse structures that nobody thought of; other ones each time in the long profile",
    cells=SPARSE_KERNELS,
    order=80,
)
def test_drawn_structure_is_right(case: Case, evidence: Evidence) -> None:
    after_csr = case.operator.after_csr
    assert after_csr is not None  # the table holds only sparse operators

    def each(data: Any) -> None:
        matrix = data.draw(csr(case.dtype))
        random = np.random.default_rng(data.draw(SEEDS))
        others = after_csr(case.dtype, matrix.lengths.size, matrix.columns, random)
        inputs = (matrix.data, matrix.indices, matrix.indptr, *others)
        evidence.require(judge_kernel(case.operator, case.backend, inputs, case.device))

    for_drawn(each)
