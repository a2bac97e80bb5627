"""The pages are complete, name no path of a machine, and their links lead to files and headings that exist.

Sphinx checks the links between the pages of the site.
"""

import re
import subprocess

import pytest

import bridge
from bridge.table import LANGUAGES
from suites.unit.docs.pages import PAGES, PROJECT, anchors, links, read

OTHERS = (PROJECT / "CHANGELOG.md", PROJECT / "reports" / "published" / "README.md")

every_page = pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.parent.name + "-" + page.stem)


def problem(page, link):
    """What is wrong with a link, None if nothing is. Links to other sites are not followed."""
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return f"{link}: there is no {target}"
    if anchor and anchor not in anchors(target):
        return f"{link}: {target.name} has no heading for #{anchor}"
    return None


@every_page
def test_links_into_the_repository_lead_somewhere(page):
    assert [found for link in links(page) if (found := problem(page, link))] == []


def test_the_pages_and_the_sessions_that_our_files_name_exist():
    """The changelog may name what is gone."""
    listed = ["git", "grep", "-hoE", r"docs/[a-z/-]+\.md|nox -s [a-z]+", "--", ".", ":!CHANGELOG.md"]
    named = set(subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.splitlines())
    defined = set(re.findall(r"^def (\w+)\(session: nox", (PROJECT / "noxfile.py").read_text("utf-8"), re.M))
    sessions = {name.removeprefix("nox -s ") for name in named if name.startswith("nox")}
    assert sessions <= defined
    assert [name for name in sorted(named) if name.startswith("docs/") and not (PROJECT / name).exists()] == []


def test_nothing_names_an_address_or_a_package_of_ours_that_nobody_has_registered():
    listed = ["git", "grep", "-nIE", r"(github|gitlab)\.(com|io)/kernel-bridge|pip install .?kernel-bridge", "--", "."]
    found = subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=False).stdout.splitlines()
    # A requirement with an address behind @ is installed from there.
    own = ("suites/unit/docs/test_links.py", "reports/published/")
    assert [line for line in found if not line.startswith(own) and " @ " not in line] == []


def test_every_public_name_of_the_bridge_has_an_entry():
    entries = re.findall(
        r"^\.\. auto(?!module)\w+:: bridge\.(\w+)$", read(PROJECT / "docs/api/bridge.md"), re.MULTILINE
    )
    errors = {name for name in bridge.__all__ if name.endswith(("Error", "Warning"))}
    listed = {each.function for each in LANGUAGES.values()} | errors
    assert sorted(entries) == sorted(set(bridge.__all__) - listed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_no_path_of_a_machine(page):
    assert not re.search(r"(?<![\w/])/(home|root|tmp|opt|usr|work|Users)/", read(page))
