"""The page of kernels by language shows the code of each beside its time."""

from suites.sessions.languages import OPERATORS, code_of, page
from suites.unit.structure.house import PROJECT

FOLDER = PROJECT / "reports" / "published" / "h100"


def test_the_published_page_is_that_of_its_run():
    (run,) = FOLDER.glob("*-8c96.jsonl.gz")
    text = page([str(run)])
    heads = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert heads == list(OPERATORS)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    published = (FOLDER / "languages.md").read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[1:5] for line in tables] == [
        line.split("|")[1:5] for line in published if line.startswith("|")
    ]


def test_code_is_counted_without_docstrings_and_empty_lines():
    code = code_of("add", "triton")
    assert code is not None
    assert code[0].startswith("from suites.backends.triton import")
    assert not any(line.startswith('"""') or not line.strip() for line in code)
    assert code_of("add", "jnp") is None
    assert code_of("matvec", "warp_tile") == code_of("matvec", "warp")
