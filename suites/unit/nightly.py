"""The deep tests: ``nox -s nightly`` runs them each night, and CI leaves them out.

CI runs what a change breaks most often, in a few minutes. A test is deep if it takes long to say something that another
test says in part already: every kernel for a GPU, threads, browsers, leaks, whole sessions of a command.
"""

from suites.cells.case import Case

DEEP = (
    # Every kernel for a GPU, every broken kernel, every fault of every bound.
    "suites/unit/suites/test_budgets.py",
    "suites/unit/suites/test_gradients.py::test_gradient_that_is_off_by_a_factor_is_refused",
    "suites/unit/suites/test_mutants.py::test_a_broken_kernel_is_caught_by_the_check_that_it_names",
    "suites/unit/suites/test_mutants.py::test_no_check_refuses_a_right_kernel",
    "suites/unit/suites/test_ways.py",
    "suites/unit/suites/test_gpu_kernels_compile.py",
    # Both dtypes of 16 bits, where one says it.
    "suites/unit/bridge/test_numba_half.py::test_a_kernel_gives_what_the_same_lines_give_in_float32[bfloat16",
    "suites/unit/bridge/test_numba_half.py::test_a_kernel_gives_what_the_same_lines_give_in_float32[float16-reductions",
    # Threads, processes that die, leaks.
    "suites/unit/bridge/test_abi.py::test_a_header_counts_by_what_a_kernel_needs_of_it",
    "suites/unit/bridge/test_carried.py::test_a_program_without_code_runs_where_the_same_kernels_are_defined",
    "suites/unit/bridge/test_carried.py::test_the_features_that_code_needs_are_those_that_it_was_compiled_with",
    "suites/unit/bridge/test_cuda_identity.py::test_other_processes_and_orders_of_compilation_give_the_same_code",
    "suites/unit/bridge/test_extras.py",
    "suites/unit/bridge/test_forked.py",
    "suites/unit/bridge/test_free_threads.py::test_threads_wrap_trace_compile_and_call_the_same_and_other_kernels",
    "suites/unit/bridge/test_identity.py::test_a_kernel_that_calls_a_function_that_is_nowhere_is_refused",
    "suites/unit/bridge/test_identity.py::test_unchanged_kernels_keep_their_keys_in_other_processes",
    "suites/unit/bridge/test_importing.py::test_launching_one_kernel_of_warp_loads_nothing_of_the_recording_of_functions",
    "suites/unit/bridge/test_importing.py::test_each_name_can_be_the_first_one_that_is_used",
    "suites/unit/bridge/test_jax_tools.py::test_another_process_is_served_by_the_persistent_cache",
    "suites/unit/bridge/test_native.py::test_a_program_finds_the_function_by_its_library_in_another_process",
    "suites/unit/bridge/test_native_cache.py::test_processes_share_a_folder_and_the_later_ones_compile_no_handler",
    "suites/unit/bridge/test_leaks.py",
    "suites/unit/bridge/test_free_threads.py::test_no_gil_is_held_while_a_kernel_runs",
    "suites/unit/bridge/test_numba_features.py",
    "suites/unit/bridge/test_numba_parallel.py::test_an_exception_fails_its_own_call_and_leaves_nothing_behind[usual]",
    "suites/unit/bridge/test_numba_parallel.py::test_a_kernel_sets_the_number_of_threads_for_itself_alone",
    "suites/unit/bridge/test_numba_parallel.py::test_a_second_process_takes_parallel_kernels_from_numbas_cache",
    "suites/unit/bridge/test_path.py",
    "suites/unit/bridge/test_shutdown.py",
    *(f"suites/unit/bridge/test_wrapper_lifetime.py::test_programs_of_wrappers_that_nobody_holds_are_freed[{maker}"
        for maker in ("jax_kernel", "warp_callable", "XLACustomKernel")),
    "suites/unit/suites/test_cell_verdict.py::test_a_process_that_keeps_too_much_forgets_what_it_has_checked",
    "suites/unit/suites/test_time_limit.py::test_the_system_tells_a_starved_process_from_one_that_hangs",
    # Recorded noise, and pages that take a minute.
    "suites/unit/reports/test_decision.py::test_recorded_noise_gives_few_false_alarms_and_hides_no_large_slowdown",
    *(f"suites/unit/docs/test_examples.py::test_the_examples_of_a_page_run_from_top_to_bottom[{page}"
        for page in ("clients", "guarantees")),
    # A browser.
    "suites/unit/reports/test_page_in_browser.py",
    # Whole sessions of the commands.
    "suites/unit/docs/test_action.py::test_the_steps_check_and_time_a_change_end_to_end",
    "suites/unit/suites/test_bench_session.py",
    "suites/unit/suites/test_catalogue.py::test_a_file_may_have_the_name_of_another_module",
    "suites/unit/suites/test_command_line.py::test_the_first_place_of_pythonpath_stays_first_in_its_own_folder",
    "suites/unit/suites/test_command_sessions.py::test_an_interrupted_bench_leaves_its_records_and_no_folder_and_goes_on",
    "suites/unit/suites/test_command_sessions.py::test_an_interrupted_validation_records_no_crash_and_goes_on",
    "suites/unit/suites/test_command_sessions.py::test_an_operator_without_a_kernel_for_the_device_is_not_fine",
    "suites/unit/suites/test_command_sessions.py::test_nothing_of_the_users_configuration_reaches_a_session",
    "suites/unit/suites/test_executor.py::test_a_run_on_an_engine_of_which_a_worker_is_killed_is_that_of_one_process",
    "suites/unit/suites/test_pytest_line.py",
    "suites/unit/suites/test_sides.py::test_a_real_side_loads_its_own_files",
)  # fmt: skip
"""How the ids of deep tests begin: a folder, a file, or a test of a file."""

CHECKS_OF_ALL_OPERATORS = ("compiled", "grad")
OPERATORS_OF_ALL_CHECKS = ("add", "csr_matvec", "scatter_add")
"""In CI the other checks, and other dtypes than the first one, run on these operators alone. ``kernel-bridge validate``
runs all of them on all operators."""


def is_deep_test(nodeid: str) -> bool:
    """Whether a test, named by its id in pytest, is deep."""
    return nodeid.startswith(DEEP)


def is_deep_check(check: str, case: Case) -> bool:
    """Whether a check of a case is left to the night. A kernel without the first dtype keeps the others."""
    if case.operator.name in OPERATORS_OF_ALL_CHECKS:
        return False
    has_first = case.operator.unsupported(case.backend, case.platform, case.operator.dtypes[0]) is None
    return check not in CHECKS_OF_ALL_OPERATORS or (has_first and not case.in_first_dtype)
