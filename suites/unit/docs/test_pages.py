"""The pages are complete, and say nothing of the machine that built them."""

import re

import pytest

import bridge
from bridge.table import LANGUAGES
from suites.unit.docs.pages import PAGES, PROJECT, read

DOCS = PROJECT / "docs"


def test_every_public_name_of_the_bridge_has_an_entry():
    entries = re.findall(r"^\.\. auto(?!module)\w+:: bridge\.(\w+)$", read(DOCS / "api" / "bridge.md"), re.MULTILINE)
    listed = {each.function for each in LANGUAGES.values()} | {name for name in bridge.__all__ if _is_error(name)}
    assert sorted(entries) == sorted(set(bridge.__all__) - listed)


def _is_error(name):
    return isinstance(getattr(bridge, name), type) and issubclass(getattr(bridge, name), Exception)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_no_path_of_a_machine(page):
    assert not re.search(r"(?<![\w/])/(home|root|tmp|opt|usr|work|Users)/", read(page))
