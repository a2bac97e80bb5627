"""What a function does while it is recorded: launches on its stream are noted, and everything else is refused."""

import threading
from types import SimpleNamespace

import pytest

from bridge import RecordingError

pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

from numba.cuda.cudadrv.driver import driver
from numba.cuda.dispatcher import _Kernel

from bridge.languages.numba_cuda import launcher
from bridge.languages.numba_cuda.watch import watching

STREAM = 77


@pytest.fixture
def launched(monkeypatch):
    """The streams that Numba launches on."""
    found = []
    monkeypatch.setattr(
        launcher, "_launch_by_numba", lambda kernel, args, grid, block, stream, shared: found.append(stream)
    )
    return found


def kernel(debug=False):
    made = _Kernel.__new__(_Kernel)
    made.debug, made.entry_name = debug, "helper"
    return made


def test_launches_through_numba_are_noted(launched):
    one, two = kernel(), kernel()
    with watching(STREAM) as watch:
        one.launch((), 1, 1, STREAM)
        two.launch((), 1, 1, SimpleNamespace(handle=STREAM), 0)
    assert watch.kernels == [one, two]
    assert watch.refused is None
    assert len(launched) == 2
    one.launch((), 1, 1, 0, 0)
    assert watch.kernels == [one, two]


@pytest.mark.parametrize("stream", [0, 5, SimpleNamespace(handle=None), SimpleNamespace(handle=5)])
def test_launches_on_other_streams_are_refused_even_if_the_function_goes_on(launched, stream):
    with watching(STREAM) as watch, pytest.raises(RecordingError, match="helper was launched on another stream"):
        kernel().launch((), 1, 1, stream, 0)
    assert watch.refused == "helper was launched on another stream"
    assert launched == []


def test_kernels_whose_exceptions_are_read_after_each_launch_are_refused(launched):
    with watching(STREAM), pytest.raises(RecordingError, match="compiled with debug=True"):
        kernel(debug=True).launch((), 1, 1, STREAM, 0)


@pytest.mark.parametrize(
    "name",
    [
        "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoDAsync", "cuMemsetD8", "cuMemsetD8Async", "cuStreamSynchronize",
        "cuStreamCreate", "cuStreamWaitEvent", "cuEventRecord", "cuEventSynchronize", "cuCtxSynchronize",
        "cuMemHostAlloc", "cuMemAllocManaged", "cuMemAlloc", "cuStreamAddCallback", "cuLaunchKernel",
        "cuGraphLaunch", "cuIpcOpenMemHandle", "cuMemPrefetchAsync", "cuStreamQuery",
    ],
)  # fmt: skip
def test_other_work_is_refused(name):
    with watching(STREAM) as watch, pytest.raises(RecordingError, match=rf"Numba-CUDA called {name}"):
        getattr(driver, name)
    assert name in watch.refused


def test_what_does_no_work_and_other_threads_are_left_alone():
    found = []

    def ask(name):
        try:
            getattr(driver, name)
        except RecordingError:
            found.append(f"{name} refused")
        except Exception:
            found.append(name)  # there may be no driver
        else:
            found.append(name)

    with watching(STREAM) as watch:
        ask("cuCtxGetCurrent")
        ask("cuMemFree")
        thread = threading.Thread(target=ask, args=("cuMemcpyHtoD",))
        thread.start()
        thread.join()
    assert found == ["cuCtxGetCurrent", "cuMemFree", "cuMemcpyHtoD"]
    assert watch.refused is None
    ask("cuMemsetD8")
    assert found[-1] == "cuMemsetD8"
