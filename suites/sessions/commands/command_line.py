"""Implements the command line: ``kernel-bridge COMMAND``, or ``python -m suites COMMAND``.

Each command imports its modules when it runs, so that its first line is on the screen at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.cli import RUN_HELP, add_commands, add_comparison_arrangement, add_export
from reports.cli import run as run_report
from reports.errors import ReportError
from reports.options import EXIT_HELP, Exit, Parser, add_output, add_selection, again, minutes, percent, seconds, whole
from reports.records.store import RUNS_VARIABLE
from suites.cells.selection import Selection, SelectionError
from suites.endurance.trial import KINDS

DESCRIPTION = """Validate kernels against references, time them, and show what was recorded.

FILE is a Python file, or the name of a module, that holds operators (suites.Operator) under public names.
Without a FILE the built-in operators are used.
"""

SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

_USAGE_ERROR, _NO_TESTS = 4, 5  # exit codes of pytest

_RAW = argparse.RawDescriptionHelpFormatter


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    # Everything after "--" is for pytest: argparse would take the value of an unknown option for a file.
    end = given.index("--") if "--" in given else len(given)
    options = parser().parse_args(given[:end])
    options.pytest = given[end + 1 :]
    options.typed = given[:end]
    if options.pytest and not options.takes_pytest:
        print(f"{options.prog}: takes no arguments after --.", file=sys.stderr)
        return int(Exit.COULD_NOT_RUN)
    if getattr(options, "runs", None):
        os.environ[RUNS_VARIABLE] = options.runs
    if getattr(options, "width", None):
        os.environ["COLUMNS"] = str(options.width)  # pytest reads it when it prints the tables
    try:
        from suites.sessions.variables import require_known_variables

        require_known_variables()
        if options.reads_runs:
            return run_report(options)
        if options.summary:
            from reports.render.page import check_summary

            check_summary(options.summary)
        return int(options.command(options))
    except (SelectionError, ReportError) as error:
        from reports.render.visible import visible

        for line in f"{options.prog}: {error}".splitlines():
            print(visible(line), file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{options.prog}: interrupted.", file=sys.stderr)
    except Exception as error:
        if _was_interrupted(error):
            print(f"{options.prog}: interrupted.", file=sys.stderr)
            return int(Exit.COULD_NOT_RUN)
        # Python would exit with 1, which means that a kernel is wrong or slower.
        from reports.render.visible import visible

        for line in traceback.format_exc().splitlines():
            print(visible(line), file=sys.stderr)
        what = visible(f"{type(error).__name__}: {error}".splitlines()[0])
        print(f"{options.prog}: stopped by a fault of its own, so nothing is decided: {what}", file=sys.stderr)
    return int(Exit.COULD_NOT_RUN)


def _was_interrupted(error: BaseException | None) -> bool:
    """Tells whether Ctrl-C caused an exception: an extension module whose import it stops raises ImportError."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _was_interrupted(error.__cause__ or error.__context__)
    )


def _bench(options: argparse.Namespace) -> Exit:
    _announce(f"timing the {options.profile} profile on {options.device}; each kernel is checked first")
    from suites.sessions.bench_command import bench

    outcome = bench(
        Selection.of(options), resume=options.resume, timeout_s=options.timeout, processes=options.processes,
        keeps_memory=options.keep_memory, verbose=options.verbose,
    )  # fmt: skip
    if outcome.path is None:
        ended = "interrupted before a cell ended" if outcome.interrupted else "no cell ended"
        raise SelectionError(outcome.refusal or f"{ended}, so nothing was recorded.")
    code = _show_run(options, outcome.path, says=not outcome.interrupted)
    _say_how_to_go_on(options, outcome)
    return code


def _validate(options: argparse.Namespace) -> Exit:
    _announce(f"checking the {options.profile} profile on {options.device}")
    from reports.judgement import judge
    from reports.records.run_file import load_run
    from suites.sessions.validate_command import Workers, validate

    to_page = options.format != "terminal"
    outcome = validate(
        Selection.of(options),
        Workers(options.jobs, options.timeout),
        resume=options.resume,
        verbose=options.verbose,
        quietly=to_page,
        summary=options.summary,
        seed=options.seed,
        more=[*_examples(options), *options.pytest],
    )
    if outcome.code == _USAGE_ERROR:
        return Exit.COULD_NOT_RUN  # pytest has said why
    if outcome.path is None or (outcome.refusal and not outcome.left):
        ended = "interrupted" if outcome.interrupted else f"pytest ended with exit code {outcome.code}"
        raise SelectionError(outcome.refusal or f"{ended} before a check was made, so nothing was recorded.")
    nothing_left = options.resume is not None and outcome.code == _NO_TESTS
    # A resumed run has cells of earlier sessions, which count as well.
    if to_page or nothing_left or outcome.interrupted:
        code = _show_run(options, outcome.path, says=not outcome.interrupted, tables=to_page or nothing_left)
    else:
        code = judge(load_run(outcome.path)).exit
    _say_how_to_go_on(options, outcome)
    if code is Exit.FINE and outcome.code not in (0, _NO_TESTS):
        raise SelectionError(f"pytest ended with exit code {outcome.code}; what was recorded is in {outcome.path}.")
    return code


_MUTANT_LIMIT_S = {"quick": 100.0, "full": 100.0, "deep": 300.0}
"""Seconds for a cell of a mutant, by profile. Some mutants wait forever; they get less time than a user's kernel."""


def _mutants(options: argparse.Namespace) -> Exit:
    _announce(f"running the checks on broken kernels on {options.device}")
    from reports.judgement import judge
    from reports.pages.run_page import doubt_tables
    from reports.records.run_file import load_run
    from reports.render.page import Page, show
    from reports.render.visible import visible
    from suites.sessions.commands.kill_matrix import matrix
    from suites.sessions.validate_command import Workers, validate

    options.operators = ["suites.mutants"]
    limit_s = options.timeout or _MUTANT_LIMIT_S[options.profile]
    outcome = validate(
        Selection.of(options), Workers(options.jobs, limit_s), quietly=True, seed=options.seed,
        more=[*_examples(options), *options.pytest],
    )  # fmt: skip
    if outcome.path is None or outcome.refusal:
        raise SelectionError(outcome.refusal or f"pytest ended with exit code {outcome.code}.")
    tables, survivors = matrix(outcome.path, options.device)
    run = load_run(outcome.path)
    judgement = judge(run)
    show(Page.of([*doubt_tables(judgement.lines), *tables]), options)
    for line in (*judgement.lines, *(f"survived: {name}" for name in survivors)):
        print(visible(line), file=sys.stderr)
    return judgement.exit


def _mutate(options: argparse.Namespace) -> Exit:
    from pathlib import Path

    from reports.pages.mutation_score import mutation_tables, score
    from reports.records.mutant_result import read_mutation
    from reports.render.page import Page, show
    from suites.mutation.fault import KINDS

    path = Path(options.show) if options.show else _mutated(options)
    found = read_mutation(path)
    show(Page.of(mutation_tables(found, KINDS)), options)
    reached = score(found.results.values())
    print(f"{len(found.results)} mutants, {reached:.1f}% caught, recorded in {path}", file=sys.stderr)
    if not found.is_complete:
        print(f"{options.prog}: INCOMPLETE. Continue with --resume {path}", file=sys.stderr)
        return Exit.COULD_NOT_RUN
    return Exit.WRONG if reached < options.require else Exit.FINE


def _mutated(options: argparse.Namespace) -> Any:
    """Tries the mutants that the options choose; returns the file with the results."""
    from rich.console import Console

    from suites.sessions.mutation_session import MutationPlan, mutate
    from suites.sessions.preflight import require_sound
    from suites.sessions.validate_command import default_jobs

    _announce(f"putting faults into right kernels, and running the checks on each, on {options.device}")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # this process must leave the GPU to the others
    selection = Selection.of(options)
    require_sound(selection)
    plan = MutationPlan(
        selection=selection, sample=options.sample, seed=options.seed, only=options.only,
        jobs=options.jobs or default_jobs(), limit_s=options.timeout, resume=options.resume,
    )  # fmt: skip
    console = Console(stderr=True, emoji=False)
    with console.status("finding places for faults") as status:

        def shown(done: int, count: int, result: Any) -> None:
            status.update(f"{done} of {count} mutants")
            if result.outcome in ("survived", "undecided"):
                console.print(f"{result.outcome}: {result.name}", highlight=False, markup=False, soft_wrap=True)

        return mutate(plan, shown)


def _list(options: argparse.Namespace) -> Exit:
    from suites.sessions.commands.listing import listing

    return _show_table(options, listing)


def _special(options: argparse.Namespace) -> Exit:
    _announce(f"comparing special values on {options.device}")
    from suites.sessions.commands.special import special_table

    return _show_table(options, special_table)


def _show_table(options: argparse.Namespace, make: Any) -> Exit:
    """Shows the table of a selection, after requiring that its names exist."""
    from reports.render.page import Page, show
    from suites.sessions.preflight import require_sound

    selection = Selection.of(options)
    require_sound(selection)
    show(Page.of([make(selection)]), options)
    return Exit.FINE


def _sanitize(options: argparse.Namespace) -> Exit:
    _announce("running compute-sanitizer; each tool runs all kernels in a process of its own")
    from reports.render.page import Page, show
    from suites.sanitize.sanitize_command import MUTANTS, prove, sanitize
    from suites.sessions.preflight import require_sound

    selection = MUTANTS if options.mutants else Selection.of(options)
    require_sound(selection)
    tools = options.tool or SANITIZER_TOOLS
    if options.mutants:
        tables, code, reasons = prove(tools, options.timeout)
    else:
        tables, code, reasons = sanitize(selection, tools, options.timeout)
    show(Page.of(tables), options)
    for reason in reasons:
        print(f"{options.prog}: {reason}", file=sys.stderr)
    return code


def _compare(options: argparse.Namespace) -> Exit:
    from suites.sessions.compare_command import compare

    return compare(options)


def _gate(options: argparse.Namespace) -> Exit:
    from suites.sessions.gate_command import gate

    return gate(options)


def _keep(options: argparse.Namespace) -> Exit:
    from suites.keeping.keep_command import keep

    return keep(options)


def _dispatch(options: argparse.Namespace) -> Exit:
    _announce(f"measuring what a call costs on {options.device}")
    from suites.dispatch.dispatch_command import dispatch

    return Exit(dispatch(options))


def _endure(options: argparse.Namespace) -> Exit:
    _announce(f"running trials of endurance on {options.device}; each has a process of its own")
    from suites.endurance.endure_command import endure

    return endure(options)


def _scale(options: argparse.Namespace) -> Exit:
    _announce(f"measuring how a spiking network scales over devices on {options.device}")
    from suites.scale.scale_command import scale

    return scale(options)


def _show_run(options: argparse.Namespace, path: Path, *, says: bool = True, tables: bool = True) -> Exit:
    """Shows the tables of the run that a session recorded, and returns its exit code.

    Args:
        options: The options of the command.
        path: The run file.
        says: Whether to say what is missing in the run; how an interrupted session goes on is said elsewhere.
        tables: Whether to show the tables.
    """
    from reports.judgement import judge
    from reports.pages.run_page import page_of
    from reports.records.record import last_by_cell
    from reports.records.run_file import load_run
    from reports.render.page import show
    from reports.render.visible import visible

    run = load_run(path)
    judgement = judge(run)
    if tables and run.records:
        show(page_of(run.records, doubts=judgement.lines), options)
    for line in judgement.lines if says else ():
        print(visible(f"{options.prog}: {line}"), file=sys.stderr)
    count = len(last_by_cell(run.records))
    print(f"{count} cells, recorded in {path}; show them again: {again('show')}", file=sys.stderr)
    return judgement.exit


def _mutant_facts(platform: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    from suites.sessions.commands.kill_matrix import purposes_and_faults

    return purposes_and_faults(platform)


def _say_how_to_go_on(options: argparse.Namespace, outcome: Any) -> None:
    """Says how to continue a session that did not come to its end."""
    if not (outcome.refusal or outcome.interrupted):
        return
    typed = [word for word in options.typed[1:] if word]
    if "--resume" in typed:
        place = typed.index("--resume")
        del typed[place : place + 2]
    typed += ["--resume", str(outcome.path)]
    typed += ["--", *options.pytest] if options.pytest else []
    why = "interrupted" if outcome.interrupted else outcome.refusal
    print(f"{options.prog}: {why}; {outcome.left} cells are left. Continue with:", file=sys.stderr)
    print(f"    {again(options.name)} {shlex.join(typed)}", file=sys.stderr)


def _examples(options: argparse.Namespace) -> list[str]:
    return ["--kb-examples", str(options.examples)] if options.examples else []


def _announce(text: str) -> None:
    print(f"kernel-bridge: {text}", file=sys.stderr, flush=True)


class _ShowVersion(argparse.Action):
    """Prints the version, which takes an import that other commands make later."""

    def __call__(self, parser: argparse.ArgumentParser, *given: object) -> None:
        from bridge import __version__

        print(f"kernel-bridge {__version__}")
        parser.exit()


def parser() -> Parser:
    """Returns the parser of all commands."""
    main_parser = Parser(_program(), description=DESCRIPTION, epilog=EXIT_HELP, formatter_class=_RAW)
    main_parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, text: str, *, pytest: bool = False) -> argparse.ArgumentParser:
        epilog = ("arguments after -- go to pytest, as in: -- -k vmap\n\n" if pytest else "") + EXIT_HELP
        found: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=text, epilog=epilog, formatter_class=_RAW
        )
        found.set_defaults(command=command, name=name, prog=found.prog, takes_pytest=pytest, reads_runs=False)
        return found

    bench = add("bench", _bench, "check and time kernels, and print the table")
    validate = add("validate", _validate, "run every check of each kernel, and print the verdicts", pytest=True)
    mutants = add("mutants", _mutants, "run the checks on broken kernels: which check catches which", pytest=True)
    mutate = add("mutate", _mutate, "put small faults into right kernels, and count how many the checks catch")
    special = add("special", _special, "show where backends treat NaN, infinities, zeros and subnormals differently")
    listing = add("list", _list, "list operators, their backends, and why cells are skipped")
    sanitize = add("sanitize", _sanitize, "run the kernels on a GPU under compute-sanitizer: memory, races, barriers")
    dispatch = add("dispatch", _dispatch, "measure what one call costs, beside a C++ handler and other ways to call")
    endure = add("endure", _endure, "make millions of calls, thousands of kernels, and calls from 16 threads")
    scaling = add("scale", _scale, "time a spiking network on several devices: weak and strong scaling")
    compare = add("compare", _compare, "compare two recorded runs, or time two git revisions in turns")
    gate = add(
        "gate", _gate, "decide whether a change passes: nothing is slower or wrong, by [tool.kernel-bridge.gate]"
    )
    _add_names(compare, gate)
    _add_keeping(add("keep", _keep, "keep recorded runs on a branch of the repository, and bring kept runs back"))
    for each in (bench, validate, special, listing, sanitize):
        each.add_argument("operators", nargs="*", metavar="FILE", help="Python files or modules with operators")
    _add_scaling(scaling)
    for each in (bench, validate, mutants, mutate, special, listing, dispatch, endure, scaling):
        each.add_argument(
            "--device", "--platform", choices=("cpu", "cuda"), default="cpu", help="where the cells run (default: cpu)"
        )
    for each, profile, text in (
        (bench, "quick", "quick: 3 minutes on 2 cores (default)"),
        (compare, "quick", "of revisions; quick: each kernel in few cells (default)"),
        (gate, "quick", "of revisions; quick: each kernel in few cells (default)"),
        (validate, "full", "full: all cells (default); quick: 4 minutes on 2 cores; deep: hours"),
        (mutants, "full", "full: all cells (default)"),
        (mutate, "full", "full: all cells, for mutants that no cell of the quick profile catches (default)"),
    ):
        profiles = ("quick", "full") if each in (bench, compare, gate) else ("quick", "full", "deep")
        each.add_argument("--profile", "--cells", choices=profiles, default=profile, help=text)
    for each in (bench, validate):
        each.add_argument("--resume", metavar="RUN", help="continue this recorded run: a path, a run id, or latest")
    for each in (bench, validate, compare, gate):
        each.add_argument("-v", "--verbose", action="store_true", help="with source and traceback of failures")
    bench.add_argument(
        "--processes",
        type=whole(1),
        metavar="N",
        help="fresh processes that time each cell (default: 4; full: 5; named operators: 6)",
    )
    bench.add_argument(
        "--mode", action="append", default=[], choices=("forward", "forward+backward"),
        help="only this direction; may be repeated (default: forward; full: both)",
    )  # fmt: skip
    bench.add_argument(
        "--peers", action="store_true", help="time functions of other libraries beside the kernels (default: none)"
    )
    bench.add_argument(
        "--keep-memory", action="store_true", help="time processes that keep freed memory (default: as any program)"
    )
    for each, limit in ((bench, 120.0), (compare, 120.0), (gate, 120.0), (validate, 300.0)):
        each.add_argument("--timeout", type=seconds, default=limit, metavar="S", help="seconds for a cell at most")
    limits = ", ".join(f"{profile} {limit:g}" for profile, limit in _MUTANT_LIMIT_S.items())
    text = f"seconds for a cell at most (default: {limits})"
    mutants.add_argument("--timeout", type=seconds, metavar="S", help=text)
    sanitize.set_defaults(profile="quick")
    sanitize.add_argument("--device", choices=("cuda",), default="cuda", help="the tools know GPUs only")
    sanitize.add_argument("--tool", action="append", choices=SANITIZER_TOOLS, help="only this tool; may be repeated")
    sanitize.add_argument("--mutants", action="store_true", help="prove each tool with a kernel that only it catches")
    sanitize.add_argument("--timeout", type=seconds, default=900.0, metavar="S", help="seconds for a tool at most")
    for each in (validate, mutants):
        each.add_argument("--jobs", type=whole(0), help="worker processes (default: one a core, at most 8; 0: none)")
        each.add_argument(
            "--examples", type=whole(1), metavar="N", help="inputs drawn for a check, other ones each time"
        )
        each.add_argument(
            "--seed", type=whole(0), metavar="N", help="repeats the random choices of a run (default: new)"
        )
    for each in (bench, validate, mutants, special, listing, sanitize, compare, gate):
        add_selection(each)
    for name in ("operator", "backend"):
        mutate.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {name}")
    mutate.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="only mutants with this in their name"
    )
    mutate.add_argument("--sample", type=whole(1), metavar="N", help="so many mutants, spread over all kinds of faults")
    mutate.add_argument("--seed", type=whole(0), default=0, help="seed of the sample (default %(default)s)")
    mutate.add_argument("--jobs", type=whole(1), help="mutants at a time (default: one a core, at most 8)")
    mutate.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="S", help="processor seconds of a cell (default %(default)s)"
    )
    mutate.add_argument("--resume", metavar="FILE", help="continue this recorded run")
    mutate.add_argument("--show", metavar="FILE", help="only print the tables of this recorded run")
    mutate.add_argument(
        "--require", type=float, default=98.0, metavar="P", help="fail below this percentage (default %(default)s)"
    )
    dispatch.add_argument(
        "--backend", "--paths", action="append", metavar="NAME", help="only this way to call; may be repeated"
    )
    dispatch.add_argument("--rounds", type=whole(1), default=100, help="samples per cell (default %(default)s)")
    dispatch.add_argument("--sample-ms", type=seconds, default=5.0, help="length of one sample (default %(default)s)")
    _add_amounts(endure)
    for each in (
        bench,
        validate,
        mutants,
        mutate,
        special,
        listing,
        sanitize,
        dispatch,
        endure,
        scaling,
        compare,
        gate,
    ):
        add_output(each)
    for each in (compare, gate):
        add_export(each)
    add_comparison_arrangement(compare)
    add_commands(commands, compares=False, mutant_facts=_mutant_facts)
    for each in commands.choices.values():
        each.set_defaults(takes_pytest=each.get_default("takes_pytest") or False)
    return main_parser


def _add_amounts(endure: argparse.ArgumentParser) -> None:
    """Adds what only ``endure`` has: its trials, and how much each does."""
    text = "only trials of this kind; may be repeated"
    endure.add_argument("--trial", action="append", choices=KINDS, help=text)
    endure.add_argument("--backend", action="append", metavar="NAME", help="only this trial; may be repeated")
    for name, count in (("calls", 1_000_000), ("kernels", 100)):
        endure.add_argument(f"--{name}", type=whole(1), default=count, metavar="N", help=f"(default: {count:,})")
    text = "of a trial with threads (default: %(default)s)"
    endure.add_argument("--seconds", type=seconds, default=20.0, metavar="S", help=text)
    text = "seconds for a trial at most; then it shows the stacks of its threads (default: %(default)s)"
    endure.add_argument("--timeout", type=seconds, default=1800.0, metavar="S", help=text)


def _add_scaling(scaling: argparse.ArgumentParser) -> None:
    """Adds what only ``scale`` has: the devices, the processes and the network."""
    text = "only this number of devices; may be repeated (default: 1, 2, 4 and so on, and all)"
    scaling.add_argument("--devices", action="append", type=whole(1, 4096), metavar="N", help=text)
    text = "processes (default %(default)s)"
    scaling.add_argument("--processes", type=whole(1, 256), default=1, metavar="N", help=text)
    text = "on each device; on all of them together for strong scaling (default: 1000000 on cuda, 20000 on cpu)"
    scaling.add_argument("--neurons", type=whole(1), metavar="N", help=text)
    text = "synapses of a neuron, of each of two kinds (default %(default)s)"
    scaling.add_argument("--synapses", type=whole(1), default=128, metavar="N", help=text)
    scaling.add_argument("--backend", metavar="NAME", help="backend of the kernels (default: numba, numba_cuda)")
    scaling.add_argument("--steps", type=whole(1), default=100, help="steps of a timed call (default %(default)s)")
    scaling.add_argument("--rounds", type=whole(1), default=7, help="timed calls (default %(default)s)")
    scaling.add_argument(
        "--timeout", type=seconds, default=900.0, metavar="S", help="seconds in all at most (default %(default)s)"
    )


def _add_keeping(keep: argparse.ArgumentParser) -> None:
    """Adds what only ``keep`` has: a branch, its limit, and a folder for the kept runs."""
    keep.set_defaults(summary=None)
    keep.add_argument("run_names", nargs="*", metavar="RUN", help=RUN_HELP)
    keep.add_argument("--branch", default="history", metavar="NAME", help="the branch of the runs (default: history)")
    keep.add_argument("--remote", default="origin", metavar="NAME", help="the remote that has it (default: origin)")
    text = "megabytes of the branch; beyond them the oldest runs are dropped (default: 200)"
    keep.add_argument("--most-mb", type=whole(1), default=200, metavar="N", help=text)
    text = "write the kept runs to this folder, of the machines of RUN, or of all if there is no RUN"
    keep.add_argument("--into", metavar="FOLDER", help=text)
    keep.add_argument("--last", type=whole(1), metavar="N", help="with --into: the newest N runs of each machine")
    keep.add_argument("--runs", metavar="DIR", help=f"folder of the runs (default: ${RUNS_VARIABLE}, else runs/)")


def _add_names(compare: argparse.ArgumentParser, gate: argparse.ArgumentParser) -> None:
    """Adds what only ``compare`` and ``gate`` have: the names of two sides, and how long they are timed."""
    compare.usage = f"{compare.prog} BASE [HEAD] [FILE ...] [options]"
    compare.add_argument(
        "names", nargs="+", metavar="NAME", help=f"BASE, then HEAD: two runs ({RUN_HELP}), or two git revisions, of "
        "which the second is HEAD by default; then Python files or modules with operators",
    )  # fmt: skip
    gate.usage = f"{gate.prog} [BASE] [HEAD] [FILE ...] [options]"
    gate.add_argument(
        "names", nargs="*", metavar="NAME", help="BASE, then HEAD, as for compare; 'baseline' for the stored run of "
        "this machine (default: base of the policy, then HEAD)",
    )  # fmt: skip
    gate.add_argument("--save", metavar="RUN", help="store this recorded run as the baseline of this machine, and end")
    for each, limit in ((compare, 10.0), (gate, None)):
        each.add_argument(
            "--operators", action="append", default=[], metavar="FILE", help="a Python file or module with operators"
        )
        each.add_argument(
            "--device", "--platform", choices=("cpu", "cuda"), help="where revisions are timed (default: cpu)"
        )
        said = "10" if limit else "minutes of the policy, 10"
        each.add_argument(
            "--minutes", type=minutes, default=limit, metavar="M", help=f"time for two revisions (default: {said})"
        )
    text = "slowdown that must be ruled out, in percent, such as 50 on a noisy machine (default: of the policy)"
    gate.add_argument("--large", type=percent, metavar="P", help=text)


def _program() -> str:
    started = os.path.basename(sys.argv[0])
    return "kernel-bridge" if started == "kernel-bridge" else "python -m suites"
