"""The checks that a kernel has to pass, by name: the test that makes each, and what it sees that no other does.

A check is a pytest test whose parameter is a :class:`suites.cells.params.Case`. Its name is the ``mode`` of its records, and
a column of the kill matrix (:mod:`suites.mutants`), which proves what is said here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: In records and tables.
        test: The file and the function that make it.
        sees: What it is there for.
    """

    name: str
    test: str
    sees: str

    @property
    def file(self) -> str:
        """The file of its test, in this package."""
        return self.test.partition("::")[0]

    @property
    def function(self) -> str:
        """The name of its test."""
        return self.test.partition("::")[2]


CHECKS = (
    Check(
        "eager",
        "checks/test_forward.py::test_eager_call_is_right_and_leaves_inputs_alone",
        "the call outside jit, in every dtype",
    ),
    Check(
        "repeat",
        "checks/test_forward.py::test_eager_call_repeats_its_bits",
        "results that vary from call to call where they must not; the others run once or twice",
    ),
    Check(
        "compiled",
        "checks/test_jit.py::test_compiled_program_calls_the_kernel_and_writes_every_element_right",
        "elements never written, changed inputs, a program without the kernel; at every size and dtype",
    ),
    Check(
        "large",
        "checks/test_jit.py::test_large_inputs_are_right",
        "parallel parts and second passes, which small inputs never reach",
    ),
    Check(
        "twice",
        "checks/test_jit.py::test_jit_around_several_calls_keeps_all",
        "calls that disturb each other in one program",
    ),
    Check("edges", "checks/test_edges.py::test_edge_case_is_right", "special values, empty inputs, degenerate structures"),
    Check(
        "drawn",
        "checks/test_property.py::test_drawn_inputs_are_right",
        "inputs that nobody thought of; other ones each time in the long profile",
    ),
    Check(
        "drawn csr",
        "checks/test_property.py::test_drawn_structure_is_right",
        "sparse structures that nobody thought of; other ones each time in the long profile",
    ),
    Check(
        "drawn vmap",
        "checks/test_property.py::test_drawn_batch_is_right",
        "axes, nesting and shared operands of batches in any combination, which vmap has five of",
    ),
    Check(
        "vmap", "checks/test_vmap.py::test_each_element_of_a_batch_is_right", "strides and shared operands of batched calls"
    ),
    Check("vmap0", "checks/test_vmap.py::test_batch_of_none_gives_results_of_none", "batches without elements"),
    Check("scan", "checks/test_control_flow.py::test_each_step_of_a_scan_is_right", "what one step leaves for the next"),
    Check(
        "cond",
        "checks/test_control_flow.py::test_branch_that_is_taken_is_right",
        "a call in a branch that may not be taken: XLA may move it out, or share its buffers",
    ),
    Check(
        "donate",
        "checks/test_donation.py::test_donated_inputs_give_right_results_and_others_stay",
        "reading an input after XLA was allowed to reuse its memory, on versions that do",
    ),
    Check("shard", "checks/test_sharding.py::test_each_shard_is_right", "state of one device used on another"),
    Check("export", "checks/test_export.py::test_exported_program_is_right", "what a serialised program does not carry along"),
    Check("x64", "checks/test_x64.py::test_the_other_precision_mode_changes_nothing", "dtypes that follow JAX's x64 mode"),
    Check(
        "threads",
        "checks/test_threads.py::test_concurrent_calls_are_right",
        "state shared by calls that overlap on one device; shard overlaps those of several",
    ),
    Check(
        "grad",
        "checks/test_grad.py::test_compiled_gradient_is_right_and_made_by_the_adjoint_kernel",
        "the derivative at every size and dtype",
    ),
    Check(
        "grad eager",
        "checks/test_grad.py::test_eager_gradient_is_right_and_integers_have_none",
        "the derivative outside jit, changed inputs, and cotangents of integers",
    ),
    Check(
        "vmap grad",
        "checks/test_grad.py::test_batch_of_gradients_is_right",
        "batches of derivatives: the rule of the adjoint, which grad vmap need not use",
    ),
    Check(
        "grad vmap",
        "checks/test_grad.py::test_gradient_of_a_batch_is_right",
        "derivatives of a batched call: the adjoint of the rule, which vmap grad need not use",
    ),
    Check(
        "grad diff",
        "checks/test_grad.py::test_gradient_agrees_with_differences",
        "a reference whose own derivative is wrong",
    ),
    Check(
        "errors",
        "checks/test_errors.py::test_bad_inputs_are_refused_in_the_operators_own_words",
        "bad inputs that are taken as good ones",
    ),
)
"""All of them, in the order in which tables show them."""


def files() -> list[str]:
    """The files of the tests, each once."""
    return list(dict.fromkeys(check.file for check in CHECKS))


@functools.cache
def by_test() -> dict[str, Check]:
    """The checks by the names of their tests."""
    return {check.function: check for check in CHECKS}
