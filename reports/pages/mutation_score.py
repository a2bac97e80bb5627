"""Makes the tables of a mutation run: how many mutants the checks caught, and which ones they did not."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from reports.records.mutant_result import MutantResult, Mutation
from reports.render.layout import Column, Row, Style, Table, Text

_OUTCOMES = ("caught", "survived", "undecided", "same results", "same code", "reviewed", "invalid")
_LISTED = ("survived", "undecided", "same results")
_MOST_TEXT = 100


def score(results: Iterable[MutantResult]) -> float:
    """Returns the percentage of the mutants with a fault that were caught; 100 if there is none.

    A mutant counts as one without a fault if the compiler made the same code of it or refused it, if its results had
    the same bits on many inputs, or if somebody has written down why it is none. An undecided mutant was not caught.
    """
    return _percentage(Counter(result.outcome for result in results), ())


def least_score(results: Iterable[MutantResult]) -> float:
    """Returns the percentage if every mutant with the same bits on many inputs has a fault after all."""
    return _percentage(Counter(result.outcome for result in results), ("same results",))


def mutation_tables(mutation: Mutation, kinds: Mapping[str, str]) -> list[Table]:
    """Returns the tables of a run.

    Args:
        mutation: The run.
        kinds: The kinds of faults, each in a few words.
    """
    results = list(mutation.results.values())
    header = mutation.header
    device = header.run.device
    drawn = "all" if header.seed is None else f"drawn with seed {header.seed}"
    where = f"{device.platform}, {device.kind}"
    notes = [
        "survived: no check caught it; undecided: could not be judged, which counts as not caught",
        "same results: no check caught it, and its results have the same bits as the right ones for every "
        "sample and edge case that was compared; least score: if all of these are faults",
        "same code: the compiler makes the same code of it; reviewed: suites/mutation/reviewed.py says why it is no "
        "fault; invalid: does not compile",
        f"{len(header.chosen)} of {header.made} mutants, {drawn}; {sum(each.seconds for each in results):.0f} s "
        "of processor time",
        f"{header.run.run_id}, commit {header.run.source.commit}" if header.run.source.commit else header.run.run_id,
    ]
    if not mutation.is_complete:
        notes.insert(0, f"INCOMPLETE: {len(results)} of {len(header.chosen)} mutants have a result")
    tables = [
        _counts(f"Mutants on {where}", "language", results, lambda result: result.language, {}, notes),
        _counts("Mutants by kind", "kind", results, lambda result: result.kind, kinds, ()),
        _by_check(results),
    ]
    listed = [result for result in results if result.outcome in _LISTED]
    return [*tables, _listed(listed)] if listed else tables


def _percentage(counts: Counter[str], also: Sequence[str]) -> float:
    faults = sum(counts[outcome] for outcome in ("caught", "survived", "undecided", *also))
    return 100.0 * counts["caught"] / faults if faults else 100.0


def _counts(
    title: str,
    header: str,
    results: Sequence[MutantResult],
    group_of: Callable[[MutantResult], str],
    meanings: Mapping[str, str],
    notes: Sequence[str],
) -> Table:
    columns = [Column(header, align="left"), Column("made"), *map(Column, _OUTCOMES), Column("score", "%")]
    columns += [Column("least score", "%")]
    columns += [Column("meaning", align="left", drop=1)] if meanings else []
    names = sorted({group_of(result) for result in results})
    rows = []
    for name in [*names, "all"] if len(names) > 1 else names:
        own = [result for result in results if name in ("all", group_of(result))]
        counts: Counter[str] = Counter(result.outcome for result in own)
        texts = [name, str(len(own)), *(str(counts[outcome] or "") for outcome in _OUTCOMES)]
        texts += [f"{score(own):.1f}", f"{least_score(own):.1f}", *([meanings.get(name, "")] if meanings else [])]
        style = Style.BAD if counts["survived"] or counts["undecided"] else Style.PLAIN
        rows.append(Row((Text(texts[0], style), *map(Text, texts[1:]))))
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _by_check(results: Sequence[MutantResult]) -> Table:
    """The checks that caught mutants. Checks run one after the other, so the first ones have more to catch."""
    caught = Counter(str(result.check) for result in results if result.outcome == "caught")
    ways: dict[str, Counter[str]] = {}
    for result in results:
        if result.outcome == "caught":
            ways.setdefault(str(result.check), Counter())[str(result.status)] += 1
    columns = (Column("check", align="left"), Column("caught"), Column("how", align="left"))
    rows = [
        Row(
            (Text(check), Text(str(count)), Text(", ".join(f"{n} {status}" for status, n in ways[check].most_common())))
        )
        for check, count in caught.most_common()
    ]
    return Table("Checks that caught mutants first", columns, tuple(rows))


def _listed(results: Sequence[MutantResult]) -> Table:
    columns = (
        Column("place", align="left"), Column("kind", align="left"), Column("change", align="left"),
        Column("why", align="left"),
    )  # fmt: skip
    rows = [
        Row(
            (
                Text(f"{result.file}:{result.line}", Style.FAINT if result.outcome == "same results" else Style.BAD),
                Text(result.kind),
                Text(_change(result)),
                Text(_cut(_why(result))),
            ),
            result.outcome,
        )
        for outcome in _LISTED
        for result in results
        if result.outcome == outcome
    ]
    return Table("Mutants that no check caught", columns, tuple(rows), row_group="outcome")


def _why(result: MutantResult) -> str:
    if result.outcome == "same results":
        return f"same bits on {result.inputs} inputs of {result.operator}, {result.backend}"
    return f"{result.operator}, {result.backend}: {result.reason}" if result.operator else str(result.reason)


def _change(result: MutantResult) -> str:
    """Returns the changed line, or the code that replaces it."""
    added = [line[1:].strip() for line in result.diff.splitlines() if line.startswith("+")]
    removed = [line[1:].strip() for line in result.diff.splitlines() if line.startswith("-")]
    return _cut(f"{' '.join(removed)} \N{RIGHTWARDS ARROW} {' '.join(added)}")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\N{HORIZONTAL ELLIPSIS}"
