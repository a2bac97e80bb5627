"""Links into the repository lead to files and headings that exist; Sphinx checks the links between the site's pages."""

import re

import pytest

from suites.unit.docs.pages import PAGES, PROJECT, README, anchors, links

REPOSITORY = re.compile(
    r"https://(?:github\.com/kernel-bridge/kernel-bridge/(?P<kind>blob|tree)|raw\.githubusercontent\.com/kernel-bridge/kernel-bridge)"
    r"/main/(?P<path>[^#]*)(?:#(?P<anchor>.*))?"
)
OTHERS = (PROJECT / "CHANGELOG.md", PROJECT / "reports" / "published" / "README.md")

every_page = pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.parent.name + "-" + page.stem)


def problem(page, link):
    """What is wrong with a link, None if nothing is. Links to other sites are not followed."""
    into = REPOSITORY.fullmatch(link)
    if into:
        target, anchor = PROJECT / into["path"], into["anchor"]
        if into["kind"] and target.is_dir() != (into["kind"] == "tree"):
            return f"{link}: 'tree' is for folders, 'blob' for files"
    elif re.match(r"[a-z]+:", link):
        return None
    else:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
    if not target.exists():
        return f"{link}: there is no {target.relative_to(PROJECT)}"
    if anchor and anchor not in anchors(target):
        return f"{link}: {target.relative_to(PROJECT)} has no heading for #{anchor}"
    return None


@every_page
def test_links_into_the_repository_lead_somewhere(page):
    assert [found for link in links(page) if (found := problem(page, link))] == []


def test_the_readme_has_no_relative_links():
    """They would lead nowhere from the page of a package index."""
    assert [link for link in links(README) if not link.startswith(("https://", "#"))] == []


def test_broken_links_are_seen():
    base = "https://github.com/kernel-bridge/kernel-bridge"
    assert problem(README, f"{base}/blob/main/LICENSE") is None
    assert problem(README, f"{base}/blob/main/docs/guarantees.md#inputs-are-read-only") is None
    assert "no heading" in problem(README, f"{base}/blob/main/docs/guarantees.md#nothing")
    assert "there is no" in problem(README, f"{base}/blob/main/nothing.md")
    assert "'tree'" in problem(README, f"{base}/blob/main/docs")
    assert "there is no" in problem(README, "nothing.md")
    assert "no heading" in problem(README, "#nothing")
