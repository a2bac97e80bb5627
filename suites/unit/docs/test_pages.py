"""The pages are complete, and say nothing of the machine that built them."""

import re

import pytest

import bridge
from suites.unit.docs.pages import PAGES, PROJECT, read

DOCS = PROJECT / "docs"


def test_every_public_name_of_the_bridge_has_an_entry():
    entries = re.findall(r"^\.\. auto(?!module)\w+:: bridge\.(\w+)$", read(DOCS / "api" / "bridge.md"), re.MULTILINE)
    assert sorted(entries) == sorted(bridge.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_no_path_of_a_machine(page):
    assert not re.search(r"(?<![\w/])/(home|root|tmp|opt|usr|work|Users)/", read(page))
