"""numba_cuda_callable with ``replay=True``: what can be recorded, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import RecordingError, numba_cuda_callable
from suites.unit.bridge.cuda_examples import HAS_GPU, OUT, N, absolute, cuda, gpu, run_threads, square, square_root

PLATFORM = "cuda" if HAS_GPU else "cpu"


def synchronises(x, out, stream):
    stream.synchronize()
    square[4, 256, stream](x, out)


def copies_to_the_host(x, out, stream):
    square[4, 256, stream](x, out)
    out.copy_to_host()


def uses_the_default_stream(x, out, stream):
    square[4, 256](x, out)


def uses_another_stream(x, out, stream):
    square[4, 256, cuda.stream()](x, out)
    square[4, 256, stream](x, out)


def waits_for_the_device(x, out, stream):
    cuda.synchronize()
    square[4, 256, stream](x, out)


def copies_memory(x, out, stream):
    out.copy_to_device(x, stream=stream)


def launches_nothing(x, out, stream):
    pass


def goes_on_after_an_error(x, out, stream):
    try:
        square[4, 256](x, out)
    except Exception:
        square[4, 256, stream](x, out)


class Helper:
    """Hides kernels where nobody looks for them."""

    KERNELS = {"square": square}  # noqa: RUF012

    @classmethod
    def launch(cls, x, out, *stream):
        cls.KERNELS["square"][(4, 256, *stream)](x, out)


def hides_a_launch_on_the_default_stream(x, out, stream):
    Helper.launch(x, out)
    square[4, 256, stream](x, out)


def hides_a_launch_on_the_stream_of_the_thread(x, out, stream):
    Helper.launch(x, out, cuda.per_thread_default_stream())
    square[4, 256, stream](x, out)


def hides_a_launch_for_all(x, out, stream):
    Helper.KERNELS["square"].forall(x.size)(x, out)
    square[4, 256, stream](x, out)


def assigns_elements(x, out, stream):
    out[:] = 1
    square[4, 256, stream](x, out)


def copies_from_the_host(x, out, stream):
    out.copy_to_device(np.zeros(x.shape, np.float32))
    square[4, 256, stream](x, out)


def passes_an_array_of_the_host(x, out, stream):
    square[4, 256, stream](np.zeros(x.shape, np.float32), out)


def works_without_numba(x, out, stream):
    from cuda.bindings import driver

    square[4, 256, stream](x, out)
    (status, other) = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT)
    assert int(status) == 0
    driver.cuMemsetD8Async(out.device_ctypes_pointer.value, 1, 4, other)


def works_on_a_temporary_without_numba(x, out, stream):
    from cuda.bindings import driver

    temporary = cuda.device_array(x.shape[0], np.float32)
    square[4, 256, stream](x, temporary)
    (_, other) = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT)
    driver.cuMemsetD8Async(temporary.device_ctypes_pointer.value, 1, 4, other)
    square[4, 256, stream](temporary, out)


@gpu
@pytest.mark.parametrize(
    "function",
    [
        synchronises, copies_to_the_host, uses_the_default_stream, uses_another_stream, waits_for_the_device,
        copies_memory, launches_nothing, goes_on_after_an_error, hides_a_launch_on_the_default_stream,
        hides_a_launch_on_the_stream_of_the_thread, hides_a_launch_for_all, assigns_elements, copies_from_the_host,
        passes_an_array_of_the_host, works_without_numba, works_on_a_temporary_without_numba,
    ],
)  # fmt: skip
def test_what_cannot_be_replayed_is_refused_and_does_no_harm(function):
    x = jnp.linspace(-5, 5, N)
    with pytest.raises(RecordingError, match=rf"{function.__name__} .*Pass replay=False"):
        numba_cuda_callable(function, OUT, replay=True)(x)
    np.testing.assert_allclose(numba_cuda_callable(absolute, OUT, replay=True)(x), np.abs(x), rtol=1e-6)


@gpu
class TestRecordings:
    X = np.linspace(-5, 5, N, dtype=np.float32)

    def identity(self, function):
        wrapper = numba_cuda_callable(function, OUT, replay=True)
        np.testing.assert_allclose(wrapper(self.X), np.abs(self.X), rtol=1e-6)
        code = jax.make_jaxpr(wrapper)(self.X).eqns[0].params["jaxpr"].eqns[0].params["call"].code
        return code.compiled("cuda").identity

    @pytest.mark.filterwarnings("ignore:.*Grid size")
    def test_launches_of_helpers_are_recorded(self):
        def hidden(x, out, stream):
            temporary = cuda.device_array(x.shape[0], dtype=np.float32)
            Helper.launch(x, temporary, stream)
            [square_root][0][4, 256, stream](temporary, out)

        assert not self.identity(hidden).startswith("local")
        np.testing.assert_allclose(numba_cuda_callable(hidden, OUT, replay=True)(self.X), np.abs(self.X), rtol=1e-6)

    def test_what_is_recorded_identifies_a_callable(self):
        def other(x, out, stream):
            size = x.shape[0]
            temporary = cuda.device_array(size, dtype=np.float32)
            square[8, 128, stream](x, temporary)
            square_root[4, 256, stream](temporary, out)

        assert not self.identity(absolute).startswith("local")
        assert self.identity(absolute) == self.identity(absolute)
        assert self.identity(other) != self.identity(absolute)

    def test_memory_of_this_process_makes_an_identity_of_this_process(self):
        ones = cuda.to_device(np.ones(N, np.float32))

        @cuda.jit
        def absolute_times(x, factor, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = abs(x[i]) * factor[i]

        def run(x, out, stream):
            absolute_times[4, 256, stream](x, ones, out)

        assert self.identity(run).startswith("local")

    @pytest.mark.filterwarnings("ignore:.*Grid size")
    def test_many_threads_record_at_once(self):
        failed = []

        def work(k):
            def run(x, out, stream):
                for _ in range(k + 1):
                    Helper.launch(x, out, stream)

            try:
                np.testing.assert_allclose(numba_cuda_callable(run, OUT, replay=True)(self.X), self.X**2, rtol=1e-6)
            except Exception as error:
                failed.append(error)

        run_threads(work)
        assert failed == []
