"""Links into the repository lead to files and headings that exist; Sphinx checks the links between the site's pages."""

import re
import subprocess

import pytest

from suites.unit.docs.pages import PAGES, PROJECT, README, anchors, links

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


def test_nothing_names_an_address_or_a_package_of_ours_that_nobody_has_registered():
    listed = ["git", "grep", "-nIE", r"(github|gitlab)\.(com|io)/kernel-bridge|pip install .?kernel-bridge", "--", "."]
    found = subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=False).stdout.splitlines()
    # A requirement with an address behind @ is installed from there.
    own = ("suites/unit/docs/test_links.py", "reports/published/")
    assert [line for line in found if not line.startswith(own) and " @ " not in line] == []


def test_broken_links_are_seen():
    assert problem(README, "LICENSE") is None
    assert problem(README, "docs/guarantees.md#inputs-are-read-only") is None
    assert problem(README, "https://example.org/nothing") is None
    assert "no heading" in problem(README, "docs/guarantees.md#nothing")
    assert "there is no" in problem(README, "nothing.md")
    assert "no heading" in problem(README, "#nothing")
