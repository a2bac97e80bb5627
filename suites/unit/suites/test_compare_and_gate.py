"""``compare`` and ``--gate``: which names stand for what, and how they end. Revisions are timed by a fake."""

import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from reports import ProcessTimes, Timing, load_run
from reports.options import Exit
from reports.pages.alike import INTERLEAVED
from suites.cells.selection import Selection
from suites.commands.command_line import main
from suites.compare import command as compare_command
from suites.compare import interleaving
from suites.compare.interleaving import RunPair
from suites.compare.names import TwoRevisions, TwoRuns, resolve_names
from suites.unit.reports.builders import FLAGS, HOST, make_cell, make_record, make_run, whole
from suites.unit.suites.git_repositories import OPERATORS, commit, git, refusal

MACHINE = msgspec.structs.replace(HOST, machine="ab12cd34ef56ab78")


@pytest.fixture(autouse=True)
def project(folder, monkeypatch):
    """A repository with three commits, which is the current folder; no runs."""
    place = folder / "project"
    commit(place, {"my_ops.py": OPERATORS, ".gitignore": "runs/\n"})
    commit(place, {"my_ops.py": OPERATORS + "\n"})
    git(place, "tag", "middle")
    commit(place, {"my_ops.py": OPERATORS + "\n\n"})
    monkeypatch.chdir(place)
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(place / "runs"))
    monkeypatch.setenv("COLUMNS", "200")
    return place


def times(ns, spread=0.002):
    processes = [ProcessTimes(samples_ns=(ns * (1 + spread * (number - 4) / 4),), block=number) for number in range(8)]
    return Timing(method="two_points", cache="hot", stop="enough", processes=processes)


def write(run_id, numba_ns=1000.0, run=None, **changes):
    """A run of four sizes, with jnp at 1000 ns; ``changes`` are those of its first numba cell."""
    header = msgspec.structs.replace(run or make_run(host=MACHINE, flags={**FLAGS, INTERLEAVED: "one"}), run_id=run_id)
    records = []
    for size in (64, 4096, 5000, 9000):
        for backend, ns in (("jnp", 1000.0), ("numba", numba_ns)):
            more = changes if (backend, size) == ("numba", 64) else {}
            facts = {"timing": times(ns)} if "status" not in more else {}
            records.append(make_record(make_cell(backend=backend, size=size), run=header, **facts, **more))
    path = Path("runs", f"{run_id}.jsonl")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(whole(records))
    return path


@pytest.fixture
def timed(monkeypatch, project):
    """Revisions that would have been timed. ``ns`` is the time of head; base takes 1000 ns."""

    class Timed:
        asked, ns, notes, changes = [], 1000.0, (), {}

        def prepare_revisions(self, repository, base, head, selection, scratch, **options):
            self.asked.append((base, head, selection, options))
            place = {label: repository.export(commit, scratch / label) for label, commit in (("b", base), ("h", head))}
            sides = {label: SimpleNamespace(folder=tree, tree=tree) for label, tree in place.items()}
            return SimpleNamespace(notes=("operators: my_ops.py",), base=sides["b"], head=sides["h"])

        def measure(self, sides, selection, *, seconds, processes, undecided, **options):
            self.seconds, self.processes = seconds, processes
            runs = [load_run(write("b" * 8)), load_run(write("h" * 8, self.ns, **self.changes))]
            self.left = undecided(*(run.records for run in runs))
            return RunPair(*runs, self.notes)

    found = Timed()
    monkeypatch.setattr(compare_command, "prepare_revisions", found.prepare_revisions)
    monkeypatch.setattr(interleaving, "measure", found.measure)
    return found


def refused(base, head):
    return refusal(resolve_names, base, head, Selection())


def test_names_of_runs_come_first(project):
    one, two = write("20261120T000000-aaaa"), write("20261121T000000-bbbb")
    git(project, "tag", "latest")
    assert resolve_names("previous", "latest", Selection()) == TwoRuns(Path(one).resolve(), Path(two).resolve())
    assert resolve_names(str(one), "20261121", Selection()).head.name == two.name


def test_other_names_are_revisions(project):
    write("20261120T000000-aaaa")
    found = resolve_names("middle", None, Selection())
    assert found == TwoRevisions(
        found.repository, git(project, "rev-parse", "middle"), git(project, "rev-parse", "HEAD"), False
    )
    assert resolve_names("HEAD~1", "HEAD", Selection()).ignores_changes


def test_a_name_of_nothing_says_what_was_tried(project):
    assert refused("nothing", None).startswith("'nothing' is no run and no revision: no folder ")
    write("20261120T000000-aaaa")
    said = refused("HEAD~1", "nothing")
    assert "no run 'nothing' in " in said
    assert f"; no revision 'nothing' in {project}" in said


def test_a_file_with_operators_is_no_base(project):
    assert "'my_ops.py' is no run and no revision: it is a file, and no recorded run; no" in refused("my_ops.py", None)
    (project / "middle").write_text("")
    assert resolve_names("middle", None, Selection()).base == git(project, "rev-parse", "middle^{commit}")


def test_a_run_and_a_revision_are_no_pair(project):
    write("20261120T000000-aaaa")
    assert "'latest' is a recorded run, and 'HEAD' a revision" in refused("latest", "HEAD")
    assert "'latest' is a recorded run, and 'HEAD' a revision" in refused("HEAD", "latest")
    assert "Name a second one to compare it with" in refused("latest", None)


def test_compare_times_revisions_and_compares_their_runs(timed, capsys, project):
    timed.notes = ("8 processes of each revision; load of the machine 0.1 to 0.4 on 2 cores",)
    arguments = ["--minutes", "3", "--operator", "lif_step", "--processes", "8"]
    assert main(["compare", "HEAD~1", "my_ops.py", *arguments]) == Exit.FINE
    ((base, head, selection, options),) = timed.asked
    assert (base, head) == (git(project, "rev-parse", "HEAD~1"), git(project, "rev-parse", "HEAD"))
    assert selection == Selection(sources=("my_ops.py",), operators=("lif_step",), profile="quick")
    assert (options, timed.seconds, timed.processes, timed.left) == ({"ignores_changes": False}, 180, 8, [])
    shown = capsys.readouterr()
    assert re.search("Comparison of bbbbbbbb .* and hhhhhhhh ", shown.out)
    assert "load of the machine 0.1 to 0.4 on 2 cores" in shown.out
    assert "note: operators: my_ops.py" in shown.err


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_timed(timed, project, capsys):
    Path("file").write_text("")
    assert main(["compare", "HEAD~1", "--runs", "file"]) == Exit.COULD_NOT_RUN
    assert re.search(r"cannot be written.*--runs or KERNEL_BRIDGE_RUNS", capsys.readouterr().err)
    assert timed.asked == []


@pytest.mark.parametrize(
    ("ns", "changes", "code", "words"),
    [
        (1000.0, {}, Exit.FINE, "result  passes"),
        (1300.0, {}, Exit.WRONG, "SLOWER: 4 cells: lif_step-numba-f32-64-cpu, lif_step-numba-f32-4096-cpu"),
        (1000.0, {"status": "WRONG_VALUE"}, Exit.WRONG, "WRONG: lif_step-numba-f32-64-cpu"),
        (1000.0, {"status": "OOM"}, Exit.COULD_NOT_RUN, "OOM (UNJUDGED): lif_step-numba-f32-64-cpu"),
    ],
)
def test_the_gate_judges_a_change(timed, capsys, ns, changes, code, words):
    from reports import Status

    timed.ns, timed.changes = ns, {name: Status(value) for name, value in changes.items()}
    assert main(["compare", "HEAD~1", "--gate"]) == code
    shown = capsys.readouterr()
    assert words in shown.out
    assert shown.err.rstrip().endswith({0: "passes", 1: "fails", 3: "could not decide"}[code])


def test_the_gate_judges_what_a_branch_adds(timed, project, capsys):
    began = git(project, "rev-parse", "HEAD")
    git(project, "switch", "--quiet", "--create", "branch")
    head = commit(project, {"my_ops.py": OPERATORS + "# branch\n"})
    git(project, "switch", "--quiet", "main")
    commit(project, {"my_ops.py": OPERATORS + "# main\n"})
    assert main(["compare", "main", "branch", "--gate"]) == Exit.FINE
    assert timed.asked[0][:2] == (began, head)
    assert f"base: {began[:12]}, where branch left main, which is at" in capsys.readouterr().out


@pytest.mark.parametrize("names", [["HEAD"], ["HEAD", "HEAD~1"]])
def test_a_head_without_a_change_cannot_be_judged(timed, capsys, names):
    assert main(["compare", "--gate", *names]) == Exit.COULD_NOT_RUN
    assert "there is no change to judge" in capsys.readouterr().err


def policy(**keys):
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in keys.items()]
    return "\n".join(["[tool.kernel-bridge.gate]", *lines, ""])


def test_the_policy_names_base_operators_and_minutes(timed, project, capsys, monkeypatch):
    assert main(["compare", "--gate"]) == Exit.COULD_NOT_RUN
    assert 'Name a revision, such as origin/main, or set base = "origin/main" in' in capsys.readouterr().err
    commit(project, {"pyproject.toml": policy(base="'HEAD~1'", operators="['my_ops.py']", minutes=4)})
    commit(project, {"my_ops.py": OPERATORS + "# new\n", "deep/file": ""})
    monkeypatch.chdir(project / "deep")
    (project / "deep" / "runs").mkdir()
    assert main(["compare", "--gate"]) == Exit.FINE
    assert timed.asked[0][2] == Selection(sources=("../my_ops.py",), profile="quick")
    assert timed.seconds == 240
    main(["compare", "--gate", "--minutes", "1"])
    assert timed.seconds == 60


def test_a_change_cannot_loosen_its_own_limits(timed, project, capsys):
    timed.ns = 1300.0
    limits = {"large": "{cpu = 0.6}", "smallest": "{cpu = 0.5}", "most_unsure": 0.2, "false_discovery_rate": 0.02}
    commit(project, {"pyproject.toml": policy(**limits)})
    assert main(["compare", "HEAD~1", "--gate"]) == Exit.WRONG
    assert "smallest 0.05, large 0.1" in capsys.readouterr().err
    commit(project, {"my_ops.py": OPERATORS + "# new\n"})
    assert main(["compare", "HEAD~1", "--gate"]) == Exit.FINE, "now the base has these limits"
    said = "smallest 0.5, large 0.6, most-unsure 0.2, false-discovery-rate 0.02"
    assert said in capsys.readouterr().err


def test_an_excused_cell_and_a_shortage_are_said(timed, project, capsys):
    entry = "{cell = '*', reason = 'rewritten', until = 2126-01-01}"
    commit(project, {"pyproject.toml": policy(allow=f"[{entry}]")})
    timed.ns, timed.notes = 1300.0, ("undecided after 3.0 minutes: 2 cells",)
    assert main(["compare", "HEAD~1", "--gate", "--summary", "page.md"]) == Exit.FINE
    shown = capsys.readouterr()
    assert "EXCUSED" in shown.out
    assert "excuses 4 cells: lif_step-numba-f32-64-cpu SLOWER" in shown.out
    assert "undecided after 3.0 minutes: 2 cells" in shown.err
    assert "### Gate" in Path("page.md").read_text()


def test_two_recorded_runs_can_be_judged(capsys):
    apart = make_run(host=MACHINE)
    write("20261120T000000-aaaa", run=apart)
    write("20261121T000000-bbbb", 1500.0, run=apart)
    assert main(["compare", "--gate", "previous", "latest"]) == Exit.WRONG
    assert main(["compare", "--gate", "latest", "previous"]) == Exit.FINE
    for more, words in ((["--size", "7"], "size 7 is not in this run"), (["my_ops.py"], "leave my_ops.py out")):
        assert main(["compare", "--gate", "latest", "previous", *more]) == Exit.COULD_NOT_RUN
        assert words in capsys.readouterr().err
