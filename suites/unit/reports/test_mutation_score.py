"""Tables of mutants: the score, what it leaves out, and the mutants that nobody caught."""

import gzip

import pytest

from reports.errors import RecordError, RunUnreadable
from reports.pages.mutation_score import least_score, mutation_tables, score
from reports.records.mutant_result import (
    MutantResult,
    Mutation,
    MutationEnd,
    MutationHeader,
    append_line,
    read_mutation,
)
from reports.records.status import Status
from reports.render.terminal import render
from suites.unit.reports.builders import make_run


def result(number, outcome, **changes):
    facts = {"language": "numba", "kind": "bound", "file": "suites/ops/add.py", "line": 7, "diff": "-a < b\n+a <= b"}
    facts |= {"before": "a < b", "after": "a <= b"}
    if outcome == "caught":
        facts |= {"check": "eager", "status": Status.WRONG_VALUE, "operator": "add", "backend": "numba"}
    return MutantResult(name=f"add:py:{number}", outcome=outcome, **(facts | changes))


def mutation(*outcomes, is_complete=True):
    results = {each.name: each for each in outcomes}
    return Mutation(MutationHeader(run=make_run(), made=100, chosen=[*results], seed=3), results, is_complete)


RESULTS = (
    *(result(number, "caught") for number in range(6)),
    result(6, "caught", language="warp", check="edges", status=Status.CRASHED),
    result(7, "survived", kind="guard", operator="add", backend="numba", reason="other bits for a sample of 3"),
    result(8, "undecided", reason="no bound"),
    result(9, "same results", operator="add", backend="numba", inputs=99),
    result(10, "same code"),
    result(11, "reviewed"),
    result(12, "invalid"),
)


def test_the_score_counts_mutants_that_may_have_a_fault():
    assert score(RESULTS) == pytest.approx(100 * 7 / 9)
    assert least_score(RESULTS) == pytest.approx(100 * 7 / 10)
    assert score([]) == 100
    assert score([result(1, "undecided")]) == 0


def test_the_tables_of_a_run():
    tables = mutation_tables(mutation(*RESULTS), {"bound": "one fewer", "guard": "always true"})
    text = render(tables, 200, color=False)
    titles = [table.title for table in tables]
    assert titles[1:] == ["Mutants by kind", "Checks that caught mutants first", "Mutants that no check caught"]
    assert "13 of 100 mutants, drawn with seed 3" in text
    assert "77.8        70.0" in text
    assert "6 WRONG_VALUE" in text
    assert "1 CRASHED" in text
    assert "suites/ops/add.py:7" in text
    assert "a < b → a <= b" in text
    assert "same bits on 99 inputs of add, numba" in text
    assert "add, numba: other bits for a sample of 3" in text
    assert "always true" in text
    assert "INCOMPLETE" not in text


def test_a_run_without_survivors_lists_none_and_an_incomplete_one_says_so():
    tables = mutation_tables(mutation(result(1, "caught"), is_complete=False), {})
    assert len(tables) == 3
    assert "INCOMPLETE: 1 of 1 mutants" in render(tables, 120, color=False)


def test_a_file_gives_back_what_was_written(tmp_path):
    path = tmp_path / "a.mutants.ndjson"
    written = mutation(*RESULTS)
    append_line(path, written.header)
    for each in RESULTS:
        append_line(path, each)
    assert not read_mutation(path).is_complete
    append_line(path, MutationEnd(results=len(RESULTS)))
    found = read_mutation(path)
    assert found == written
    assert found.is_complete


@pytest.mark.parametrize("results", [0, 5, 14])
def test_an_end_that_counts_other_results_ends_nothing(tmp_path, results):
    path = tmp_path / "a.mutants.ndjson"
    append_line(path, mutation(*RESULTS).header)
    for each in RESULTS:
        append_line(path, each)
    append_line(path, MutationEnd(results=results))
    assert not read_mutation(path).is_complete


def test_a_line_that_a_crash_cut_off_is_left_out_and_another_damage_is_an_error(tmp_path):
    path = tmp_path / "a.mutants.ndjson"
    append_line(path, mutation(*RESULTS).header)
    append_line(path, RESULTS[0])
    with path.open("ab") as file:
        file.write(b'{"type": "mut')
    assert [*read_mutation(path).results] == [RESULTS[0].name]
    with path.open("ab") as file:
        file.write(b"\n")
    append_line(path, RESULTS[1])
    with pytest.raises(RecordError, match="ndjson:3: no record of a mutant"):
        read_mutation(path)


def test_a_compressed_file_is_read_and_a_damaged_one_is_an_error(tmp_path):
    path = tmp_path / "a.mutants.ndjson"
    for line in (mutation(*RESULTS).header, *RESULTS, MutationEnd(results=len(RESULTS))):
        append_line(path, line)
    packed = tmp_path / "a.mutants.ndjson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_mutation(packed) == read_mutation(path)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(RunUnreadable, match="cannot be read"):
        read_mutation(packed)
    with pytest.raises(RunUnreadable, match="is a folder"):
        read_mutation(tmp_path)


def test_a_file_without_a_header_and_no_file_are_errors(tmp_path):
    path = tmp_path / "a.mutants.ndjson"
    with pytest.raises(RunUnreadable, match="cannot be read"):
        read_mutation(path)
    append_line(path, RESULTS[0])
    with pytest.raises(RecordError, match="has no header"):
        read_mutation(path)
