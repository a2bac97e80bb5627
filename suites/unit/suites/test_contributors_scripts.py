"""The script that measures calls: it counts every one, and fails if something is wrong."""

from suites.dispatch import __main__ as dispatch
from suites.dispatch.ways import WAYS


def test_every_way_to_call_is_measured_in_every_situation_and_a_wrong_one_is_said(monkeypatch, capsys):
    kept = {name: WAYS["cpu"][name] for name in ("numba", "callback", "jnp")}
    monkeypatch.setitem(dispatch.WAYS, "cpu", {**kept, "cpp": ("wrong", lambda out: lambda x, y: x + 2 * y)})
    assert dispatch.main(["cpu", "2"]) == 1
    shown = capsys.readouterr().out
    assert len([line for line in shown.splitlines() if line.startswith("native handler, Numba")]) == 4
    assert len([line for line in shown.splitlines() if line.startswith("jnp.add")]) == 4
    assert "RUNTIME_ERROR cpp: ValueError: loop gave [101. 101. 101.], expected 51.0" in shown
