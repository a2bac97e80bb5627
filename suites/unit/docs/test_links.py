"""Links into the repository lead to files and headings that exist; Sphinx checks the links between the site's pages."""

import re
import subprocess

import pytest

from suites.unit.docs.pages import PAGES, PROJECT, anchors, links

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
