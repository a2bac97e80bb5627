"""Adds files to a branch of a remote repository, though others push to it at the same time.

Neither the work tree nor the index nor a branch of the local repository changes: the commit is made beside them.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from suites.errors import RevisionError
from suites.revisions.git_program import git_said, run_git
from suites.revisions.repository import Repository

MARK = ".kernel-bridge-history"
"""The file that tells a branch with runs from others: nothing is ever pushed to a branch without it."""

README = """\
# Recorded runs

`kernel-bridge keep` adds the runs of kernel-bridge to this branch, a folder for each machine, platform and GPU. When
the files are larger than its option `--most-mb` allows, it drops the oldest ones and begins the branch anew. Then
their content leaves the repository.

Get them with `kernel-bridge keep --into FOLDER`, and read them with `kernel-bridge runs --runs FOLDER`.
"""

TRIES = 12
"""How often a commit is made anew, because somebody else was faster."""

_STUCK = 4  # a remote that is where it was after so many failures refuses the push for another reason than a race
_LONGEST_PAUSE_S = 8.0
_NAME, _EMAIL = "kernel-bridge", "kernel-bridge@localhost"

Drop = Callable[[Mapping[str, int]], Collection[str]]
"""Chooses what leaves the branch, from the size in bytes of every file with a run, the added ones among them."""


@dataclass(frozen=True)
class Pushed:
    """The end of a push.

    Attributes:
        commit: The commit that the branch is at.
        added: The paths that the push added or changed; none if the branch had them all.
        dropped: The paths that left the branch, which then began anew.
        tries: How often the commit was made.
    """

    commit: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    tries: int


@dataclass(frozen=True)
class HistoryBranch:
    """A branch of a remote repository that holds recorded runs and nothing else.

    Attributes:
        repository: The local repository.
        remote: The name of the remote.
        branch: The name of the branch.
        pause: Waits a number of seconds between two tries.
    """

    repository: Repository
    remote: str
    branch: str
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        root = self.repository.root
        remotes = run_git(root, "remote").stdout.split()
        if self.remote not in remotes:
            has = f"it has {', '.join(remotes)}" if remotes else "it has none"
            raise RevisionError(
                f"{root} has no remote {self.remote!r}: {has}. Name one with --remote, or add it: git remote add."
            )
        if run_git(root, "check-ref-format", self._ref).returncode:
            raise RevisionError(f"got {self.branch!r} for --branch, expected the name of a branch, such as history.")

    def tip(self) -> str | None:
        """Fetches the branch and returns its commit; None if the remote has no such branch.

        Raises:
            RevisionError: The remote cannot be read, or the branch holds something else than runs.
        """
        root = self.repository.root
        listed = run_git(root, "ls-remote", "--exit-code", self.remote, self._ref)
        if listed.returncode == 2:  # it has no such ref
            return None
        if listed.returncode:
            raise RevisionError(f"the remote {self.remote} of {root} cannot be read: {git_said(listed)}.")
        known = f"refs/remotes/{self.remote}/{self.branch}"
        fetched = run_git(root, "fetch", "--quiet", "--no-tags", self.remote, f"+{self._ref}:{known}")
        if fetched.returncode:
            raise _RacedError(f"{self.remote}/{self.branch} cannot be fetched: {git_said(fetched)}.")
        tip = run_git(root, "rev-parse", "--verify", f"{known}^{{commit}}").stdout.strip()
        if MARK not in self.repository.files(tip):
            raise RevisionError(
                f"the branch {self.branch} of {self.remote} holds other files than recorded runs (it has no {MARK})."
                " Name another one with --branch."
            )
        return tip

    def add(self, files: Mapping[str, bytes], drop: Drop) -> Pushed:
        """Adds files and pushes; the first push makes the branch.

        A push succeeds only if the branch is where it was when the commit was made. If somebody else was faster, the
        branch is fetched again, and the commit is made anew on top of it.

        Args:
            files: The content of each file, by its path on the branch.
            drop: Chooses the files that leave the branch. If there are any, the branch begins anew with a commit
                without a parent, so that their content leaves the repository, too.

        Raises:
            RevisionError: The remote refuses the push, or others were faster each time.
        """
        said, refused, before = "", 0, ""
        for attempt in range(1, TRIES + 1):
            try:
                tip = self.tip()
                commit, added, dropped = self._commit(tip, files, drop)
                if tip is not None and not added:
                    return Pushed(tip, (), (), attempt)
                lease = f"--force-with-lease={self._ref}:{tip or ''}"
                done = run_git(
                    self.repository.root, "push", "--quiet", "--no-verify", lease, self.remote, f"{commit}:{self._ref}"
                )
                if done.returncode == 0:
                    return Pushed(commit, added, dropped, attempt)
                said = _refusal(done.stderr) or git_said(done)
                refused = refused + 1 if (tip or "") == before else 1
                before = tip or ""
            except _RacedError as error:
                said = str(error)
            if refused >= _STUCK:
                break
            self.pause(random.uniform(0.2, 1.0) * min(_LONGEST_PAUSE_S, 0.25 * 2**attempt))
        raise RevisionError(
            f"{self.remote} did not take the push to {self.branch} in {attempt} tries: {said}. Check that this user may"
            " push to the branch; in GitHub Actions the job needs permissions: contents: write."
        )

    def _commit(
        self, tip: str | None, files: Mapping[str, bytes], drop: Drop
    ) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Makes the commit; returns it with the paths that it adds and those that it drops."""
        root = self.repository.root
        with tempfile.TemporaryDirectory(prefix="kernel-bridge-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            self._git("read-tree", tip or "--empty", **index)
            before = self._sizes(tip)
            blobs = {}
            for number, (path, content) in enumerate({**files, MARK: b"1\n", "README.md": README.encode()}.items()):
                file = Path(scratch, str(number))
                file.write_bytes(content)
                blobs[path] = self._git("hash-object", "-w", "--no-filters", str(file))
            added = tuple(path for path in files if before.get(path, ("", 0))[0] != blobs[path])
            for path, blob in blobs.items():
                self._git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", **index)
            sizes = {path: size for path, (_, size) in before.items() if path not in (MARK, "README.md")}
            sizes |= {path: len(content) for path, content in files.items()}
            dropped = tuple(drop(sizes))
            for path in dropped:
                self._git("update-index", "--force-remove", "--", path, **index)
            tree = self._git("write-tree", **index)
        parents = ["-p", tip] if tip and not dropped else []
        message = f"Keep {', '.join(path for path in added[:5])}" + (" and more" if len(added) > 5 else "")
        message += f"\n\n{len(dropped)} older runs dropped." * bool(dropped) + "\n\n[skip ci]\n"
        who = {} if run_git(root, "var", "GIT_COMMITTER_IDENT").returncode == 0 else _somebody()
        return self._git("commit-tree", tree, *parents, "-m", message, **who), added, dropped

    def _sizes(self, tip: str | None) -> dict[str, tuple[str, int]]:
        """Returns the blob and the size in bytes of each file of a commit, by its path."""
        if tip is None:
            return {}
        found = {}
        for line in self._git("ls-tree", "-r", "-l", "-z", "--full-tree", tip).split("\0"):
            if line:
                facts, _, path = line.partition("\t")
                _, kind, blob, size = facts.split()
                if kind == "blob":
                    found[path] = (blob, int(size))
        return found

    def _git(self, *arguments: str, **variables: str) -> str:
        done = run_git(self.repository.root, *arguments, **variables)
        if done.returncode:
            raise RevisionError(f"git {arguments[0]} failed in {self.repository.root}: {git_said(done)}.")
        return done.stdout.strip()

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"


class _RacedError(RevisionError):
    """Another process changed the branch, or holds the lock of a ref, at this moment."""


def _refusal(messages: str) -> str:
    """Returns why a remote refused a push: the reason in parentheses, after what a hook of the remote said."""
    lines = [line.strip() for line in messages.splitlines()]
    hook = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    rejected = [line.rpartition("(")[2].rstrip(")") for line in lines if line.startswith("!")]
    return ": ".join(filter(None, [*rejected[:1], " ".join(filter(None, hook))[:200]]))


def _somebody() -> dict[str, str]:
    """The author of a commit where git knows none, as on the machines of CI."""
    return {
        f"GIT_{person}_{what}": value
        for person in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", _NAME), ("EMAIL", _EMAIL))
    }
