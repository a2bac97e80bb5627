"""The adversary finds nothing in a fixed number of attacks; `python -m suites.unit.bridge.adversary` draws more."""

from suites.unit.processes import run


def test_no_attack_succeeds():
    done = run("-m", "suites.unit.bridge.adversary", "--examples", 3, "--steps", 12)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
