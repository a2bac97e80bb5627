"""Writes the summary of a job as a comment on a pull request of GitHub, and updates this comment afterwards.

Usage: ``python comment.py NUMBER SUMMARY TITLE``. It needs nothing but Python. ``GITHUB_TOKEN`` is the
token of the job. Without one, or where it may not write, as for a fork, the summary of the job stands alone.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_PAGE = 100
"""Comments in an answer: the most that GitHub gives."""


def comment(number: str, text: str, title: str) -> str:
    """Writes the comment of this title, or replaces it; returns what was done, as a line.

    Args:
        number: The number of the pull request.
        text: The comment as Markdown.
        title: Its title: comments of other titles stay.

    Raises:
        urllib.error.URLError: GitHub refuses, or cannot be reached.
    """
    mark = f"<!-- kernel-bridge: {title} -->"
    body = {"body": f"{mark}\n## {title}\n\n{text}"}
    path = f"issues/{number}/comments"
    page = 1
    while found := _ask("GET", f"{path}?per_page={_PAGE}&page={page}"):
        for each in found:
            # Anybody can write the mark, but only a job's token writes as a bot.
            if each["user"]["type"] == "Bot" and each["body"].startswith(mark):
                _ask("PATCH", f"issues/comments/{each['id']}", body)
                return f"updated {each['html_url']}"
        page += 1
    return f"wrote {_ask('POST', path, body)['html_url']}"


def _ask(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    server = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(
        f"{server}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main(number: str, summary: str, title: str) -> None:
    """Comments, or says why it could not: a missing comment fails no job."""
    if not os.environ.get("GITHUB_TOKEN"):
        print("no comment: there is no token")
        return
    try:
        print(comment(number, Path(summary).read_text(encoding="utf-8"), title))
    except (urllib.error.URLError, OSError, ValueError) as error:
        print(f"::notice title=No comment::The job summary has everything. GitHub says: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
