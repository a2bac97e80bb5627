"""The README is short, the pages are complete and say nothing of the machine that built them."""

import re

import pytest

import bridge
from reports.web.readme import stale_files
from suites.unit.docs.pages import PAGES, PROJECT, README, read

DOCS = PROJECT / "docs"


def test_the_readme_is_short():
    assert len(re.findall(r"\S*\w\S*", read(README))) <= 900  # the lines of tables are no words


def test_all_pages_can_be_read_in_an_hour():
    assert sum(len(read(page).split()) for page in PAGES) <= 13_200


def test_the_pictures_and_the_table_of_the_readme_are_current():
    assert stale_files(PROJECT) == [], "out of date, run: nox -s pictures"


def test_every_public_name_of_the_bridge_has_an_entry():
    entries = re.findall(r"^\.\. auto(?!module)\w+:: bridge\.(\w+)$", read(DOCS / "api" / "bridge.md"), re.MULTILINE)
    assert sorted(entries) == sorted(bridge.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_no_path_of_a_machine(page):
    assert not re.search(r"(?<![\w/])/(home|root|tmp|opt|usr|work|Users)/", read(page))
