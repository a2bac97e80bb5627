"""An XLA FFI that is newer than the bridge knows is tried in another process, which may crash instead of this one."""

import sys

import pytest

from bridge import AbiError, AbiWarning
from bridge.ffi import newer_ffi
from suites.unit import processes

NEWER = (newer_ffi.NEWEST[0], newer_ffi.NEWEST[1] + 1)


def program(text):
    return [sys.executable, "-c", text]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(newer_ffi.TRIAL_VARIABLE, raising=False)
    return tmp_path / "cache"


def test_the_trial_succeeds_with_the_installed_jaxlib():
    assert processes.output("-P", "-m", "bridge.ffi_trial") == ""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "numba_kernel = lambda kernel, outs, **_: lambda *_: [0 * np.ones(o.shape) for o in outs]",
            "two results gave",
        ),
        ("numba_kernel = None", "TypeError"),
    ],
)
def test_the_trial_fails_where_calls_are_wrong(fault, said):
    done = processes.run("-c", f"import numpy as np, bridge; bridge.{fault}; from bridge.ffi_trial import main; main()")
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


def test_a_trial_that_succeeded_is_a_warning_and_is_remembered(cache):
    with pytest.warns(AbiWarning, match=r"XLA FFI 0\.6 of jaxlib .* is newer than 0\.5.*GPU were not tried"):
        newer_ffi.require_sound(NEWER, program("import os; assert os.environ['JAX_PLATFORMS'] == 'cpu'"))
    assert len(list(cache.iterdir())) == 1
    with pytest.warns(AbiWarning):
        newer_ffi.require_sound(NEWER, program("raise SystemExit(1)"))  # not run again
    with pytest.raises(AbiError):
        newer_ffi.require_sound((NEWER[0], NEWER[1] + 1), program("raise SystemExit(1)"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os; os.abort()", "ended by signal 6"),
        ("raise ValueError('moved')", "a trial failed: ValueError: moved"),
        ("raise SystemExit(3)", "no message"),
        ("import time; time.sleep(60)", r"did not end within 0\.5 s"),
    ],
)
def test_a_trial_that_fails_is_an_error_and_not_remembered(cache, text, said):
    with pytest.raises(AbiError, match=f"do not work with it: .*{said}.*Install a jaxlib"):
        newer_ffi.require_sound(NEWER, program(text), limit_s=0.5 if "sleep" in text else 60)
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNEL_BRIDGE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(AbiWarning):
        newer_ffi.require_sound(NEWER, program("pass"))


@pytest.mark.parametrize(("known", "said"), [((0, 0), "AbiWarning: the XLA FFI 0."), ((0, 99), "")])
def test_importing_the_bridge_tries_only_a_version_that_it_does_not_know(cache, known, said):
    """The trial of this test is short: that the program of the trial works, another test says."""
    code = (
        f"from bridge.ffi.native import abi; abi.NEWEST = {known}\n"
        "import bridge.ffi.newer_ffi as newer; newer._failure = lambda *_: None\n"
        "import bridge.ffi.target"
    )
    # The module is imported below `bridge`, whose own import would come first.
    start = f"import sys, types; m = types.ModuleType('bridge'); m.__path__ = [{str(newer_ffi._PACKAGE)!r}]; "
    done = processes.run("-W", "always", "-c", start + "sys.modules['bridge'] = m\n" + code)
    assert done.returncode == 0, done.stderr
    assert (said in done.stderr) if said else ("AbiWarning" not in done.stderr)
