"""What callables do through Numba-CUDA, and what can be recorded: without a GPU, for nothing is launched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import RecordingError, numba_cuda_callable
from bridge.languages.numba_cuda import device_memory
from suites.unit.bridge.cubins import sizes_in
from suites.unit.bridge.cuda_examples import HAS_GPU, OUT, N, absolute, cuda, gpu, run_threads, square, square_root
from suites.unit.bridge.entries import call_in

from bridge.languages.numba_cuda.recording import record  # isort: skip
from suites.unit.bridge.without_gpu import recording_without_gpu  # isort: skip

PLATFORM = "cuda" if HAS_GPU else "cpu"
ARRAY = ((N,), np.dtype(np.float32))


@pytest.fixture
def driver():
    if HAS_GPU:
        pytest.skip("a recording is kept by its content, and a GPU would be given the handles of the stand-in")
    with recording_without_gpu() as fake:
        yield fake


def recorded(function, **options):
    return record(function.__name__, function, [ARRAY, ARRAY], 0, **options)


def test_launches_are_noted_with_the_places_of_their_arrays(driver):
    found = recorded(absolute)
    array = (0, 0, N, 4, 0, N, 4)
    assert [(each.blob, each.grid, each.block, each.handles) for each in found.launches] == [
        (array * 2, (4, 1, 1), (256, 1, 1), (7,))
    ] * 2
    places = [[(patch.word, patch.buffer, patch.offset) for patch in each.patches] for each in found.launches]
    assert places == [[(4, 0, 0), (11, 2, 0)], [(4, 2, 0), (11, 1, 0)]]
    assert found.temporaries == (4 * N,)


@cuda.jit
def takes_numbers(x, n, f, flag, out):
    out[0] = x[0] * f if flag else n


def test_a_launch_takes_slices_and_numbers(driver):
    big = 2**63 + 5

    def run(x, out, stream):
        takes_numbers[4, 64, stream](x[5:], big, 2.5, True, out)

    ((launch, kernel, _),) = recorded(run).alive
    library = kernel._codelibrary
    assert sizes_in(library.get_cubin(cc=(9, 0)).code, library._entry_name) == launch.sizes
    assert (launch.grid, launch.block) == ((4, 1, 1), (64, 1, 1))
    assert launch.blob[7:10] == (big, int(np.float64(2.5).view(np.int64)), 1)
    assert launch.patches[0].offset == 20


class Helper:
    """Hides kernels where nobody looks for them."""

    KERNELS = {"square": square}  # noqa: RUF012

    @classmethod
    def launch(cls, x, out, *stream):
        cls.KERNELS["square"][(4, 256, *stream)](x, out)


def test_launches_of_helpers_are_recorded_and_kernels_count_by_their_code(driver):
    def hidden(x, out, stream):
        temporary = cuda.device_array(N, dtype=np.float32)
        Helper.launch(x, temporary, stream)
        [square_root][0][4, 256, stream](temporary, out)

    def other(x, out, stream):
        temporary = cuda.device_array(N, dtype=np.float32)
        square[8, 128, stream](x, temporary)
        square_root[4, 256, stream](temporary, out)

    first = recorded(absolute).content.replace("absolute", "hidden")
    assert first == recorded(hidden).content
    assert recorded(absolute).content != recorded(other).content.replace("other", "absolute")


def synchronises(x, out, stream):
    stream.synchronize()
    square[4, 256, stream](x, out)


def uses_the_default_stream(x, out, stream):
    square[4, 256](x, out)


def raises(x, out, stream):
    raise ValueError("mine")


def goes_on_after_an_error(x, out, stream):
    try:
        Helper.launch(x, out)
    except Exception:
        square[4, 256, stream](x, out)


def passes_an_array_of_the_host(x, out, stream):
    square[4, 256, stream](np.zeros(N, np.float32), out)


def launches_a_kernel_that_tells_its_exceptions(x, out, stream):
    cuda.jit(debug=True, opt=False)(square.py_func)[4, 256, stream](x, out)


def takes_a_number_that_no_parameter_holds(x, out, stream):
    takes_numbers[4, 64, stream](x, 2**64, 2.5, True, out)


REFUSED = {
    takes_a_number_that_no_parameter_holds: "too large",
    synchronises: "cuStreamSynchronize",
    uses_the_default_stream: "another stream",
    raises: "ValueError: mine",
    goes_on_after_an_error: "another stream",
    passes_an_array_of_the_host: "an array of the host",
    launches_a_kernel_that_tells_its_exceptions: "debug=True",
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_cannot_be_replayed_is_refused(driver, function):
    with pytest.raises(RecordingError, match=rf"{function.__name__} .*{REFUSED[function]}.*Pass replay=False"):
        recorded(function)
    assert recorded(absolute).launches


def test_work_of_other_libraries_on_the_stream_is_refused(driver):
    driver.nodes = 1
    with pytest.raises(RecordingError, match=r"absolute did work on the stream that is no launch through Numba-CUDA"):
        recorded(absolute)


def test_a_kernel_from_numbas_disk_cache_is_recorded(driver):
    """It has no Python function."""
    kernel = cuda.jit(square.py_func)

    def run(x, out, stream):
        for compiled in kernel.overloads.values():
            vars(compiled).pop("py_func", None)
        kernel[4, 256, stream](x, out)

    assert recorded(run).content == recorded(run).content != ""


def test_temporaries_of_a_batch_share_the_memory_of_one_element(driver):
    call = numba_cuda_callable(absolute, OUT, replay=True)
    made = call_in(jax.vmap(call), jnp.zeros((1000, N)))
    assert made.hidden == 1
    assert made.vmap_method == "sequential"

    def one(x, out, stream):
        square[4, 256, stream](x, out)

    plain = numba_cuda_callable(one, OUT, replay=True)
    assert call_in(plain, jnp.zeros(N)).vmap_method is None


# Memory for temporaries.


class Context:
    """What Numba's pointers refer to weakly."""


def test_a_temporary_is_allocated_and_freed_in_the_order_of_its_stream(driver):
    memory, context = device_memory.StreamMemory(5, 0), Context()
    first, second = memory(context, 100), memory(context, 200)
    assert driver.of("cuMemAllocFromPoolAsync") == [(100, "pool", 5), (200, "pool", 5)]
    view = first.view(8)
    address = first.device_pointer_value
    del first
    assert driver.of("cuMemFreeAsync") == []
    del view, second
    assert driver.of("cuMemFreeAsync") == [(address, 5), (address + 1, 5)]


def test_release_gives_back_what_the_pool_keeps(driver):
    bridge.release()
    assert driver.of("cuMemPoolTrimTo") == [("pool", 0)]


def test_memory_that_is_used_up_is_an_error_of_its_own(driver, monkeypatch):
    monkeypatch.setattr(driver, "cuMemAllocFromPoolAsync", lambda *of: (2, 0), raising=False)
    monkeypatch.setattr(device_memory.driver, "error_text", lambda status: f"status {status}")
    with pytest.raises(bridge.DeviceMemoryError, match="allocating 100 bytes on CUDA device 0 failed: status 2"):
        device_memory.StreamMemory(5, 0)(Context(), 100)


@gpu
def test_many_threads_record_at_once_while_others_use_the_gpu():
    x, failed = np.linspace(-5, 5, N, dtype=np.float32), []

    def work(k):
        def run(x, out, stream):
            for _ in range(k + 1):
                Helper.launch(x, out, stream)

        try:
            for size in range(20):
                cuda.to_device(x[:size]).copy_to_host()
                jax.block_until_ready(jnp.zeros(size + k) + 1)
            np.testing.assert_allclose(numba_cuda_callable(run, OUT, replay=True)(x), x**2, rtol=1e-6)
        except Exception as error:
            failed.append(error)

    run_threads(work)
    assert failed == []
