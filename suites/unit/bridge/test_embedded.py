"""CUDA code that an exported program carries: what is damaged is refused, and nothing else reaches native code."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import BridgeError
from bridge.ffi.cuda import embedded
from bridge.ffi.plans.device import DevicePlan, Launch, Patch

pytest.importorskip("cuda.core", reason="cuda-core is not installed")

LAUNCH = Launch(
    "copy", (7,), (4, 1, 1), (32, 1, 1), 64, (0, 0, -7), (0, 8, 16), (Patch(0, 0), Patch(1, 1, 8)), overlaps=True
)
PLAN = DevicePlan("copy", ((1, 4),), ((1, 4),), [LAUNCH])


@pytest.fixture(scope="module")
def text():
    from bridge.languages.cuda_cpp import define

    source = 'extern "C" __global__ void copy(const float* x, float* out, int n) { out[n] = x[n]; }'
    content, symbol, _ = define(source, "copy", ()).compile("sm_90")
    return embedded.write(PLAN, [{90: embedded.Image(90, symbol, content)}])


@pytest.fixture(autouse=True)
def _loaded(monkeypatch):
    monkeypatch.setattr(embedded, "load_everywhere", lambda load: (7,))


def changed(text, path, value):
    """The text with one part of the plan replaced."""
    plan = msgspec.msgpack.decode(base64.b64decode(text))
    part = plan
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return base64.b64encode(msgspec.msgpack.encode(plan)).decode()


def at(*path):
    return ("launches", 0, *path)


def test_what_was_written_is_read(text):
    plan = embedded.read(text)
    assert plan == DevicePlan("copy", ((1, 4),), ((1, 4),), [LAUNCH])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inputs", 0), [-1, 4]),
        (("inputs", 0), [65, 4]),
        (("outputs", 0), [1, 0]),
        (("outputs", 0), [1, 2**40]),
        (("outputs",), []),
        (("inputs",), [[1, 4]] * 300),
        (("inputs",), "no list"),
        (("launches",), None),
        (at("grid"), [0, 1, 1]),
        (at("grid"), [2**31, 1, 1]),
        (at("grid"), [1, 65536, 1]),
        (at("grid"), [1, 1]),
        (at("grid"), [-4, 1, 1]),
        (at("grid"), [4.5, 1, 1]),
        (at("block"), [0, 1, 1]),
        (at("block"), [1, 1, 65]),
        (at("block"), [64, 32, 1]),
        (at("shared_bytes"), -1),
        (at("shared_bytes"), 2**31),
        (at("blob"), [0, 0]),
        (at("blob"), [0, 0, 2**63]),
        (at("blob"), []),
        (at("parameters", 0), -8),
        (at("parameters", 1), 17),
        (at("parameters", 2), 2**62),
        (at("parameters"), [0, 8]),
        (at("parameters"), [0, 8, 16, 16]),
        (at("patches", 0), [3, 0, 0]),
        (at("patches", 0), [-1, 0, 0]),
        (at("patches", 0), [2**40, 0, 0]),
        (at("patches", 0), [0, 2, 0]),
        (at("patches", 0), [0, -1, 0]),
        (at("patches", 0), [0, 0, -1]),
        (at("patches", 0), [0, 0, 2**63]),
        (at("patches", 0), [0, 0]),
        (at("images"), []),
        (at("images", 0, "content"), b""),
        (at("images", 0, "content"), b"\x7fELF\x02" + bytes(200)),
        (at("images", 0, "symbol"), "other"),
        (at("cooperative"), 7),
        (at("name"), None),
    ],
)
def test_a_number_out_of_its_range_is_refused(text, path, value):
    with pytest.raises(BridgeError, match=r"damaged CUDA code of 'copy': .*Export it again|that cannot be read"):
        embedded.read(changed(text, path, value))


@pytest.mark.parametrize(
    "damage", [lambda t: t[:100], lambda t: t[:-3], lambda t: "", lambda t: "é" + t, lambda t: "!"]
)
def test_a_text_that_is_no_plan_is_refused(text, damage):
    with pytest.raises(BridgeError, match="cannot be read"):
        embedded.read(damage(text))


def fits(plan):
    """Whether native code can execute a plan, by the rules of its own and of the driver."""
    count = len(plan.inputs) + len(plan.outputs)
    return (
        len(plan.outputs) > 0
        and count <= 256
        and all(0 <= rank <= 64 and size > 0 for rank, size in (*plan.inputs, *plan.outputs))
        and all(
            all(0 <= patch.word < len(launch.blob) and 0 <= patch.buffer < count for patch in launch.patches)
            and len(launch.parameters) == 3
            and all(
                0 <= start <= 8 * len(launch.blob) - size
                for start, size in zip(launch.parameters, (8, 8, 4), strict=True)
            )
            and all(1 <= blocks < 2**31 for blocks in launch.grid)
            and all(1 <= threads <= 1024 for threads in launch.block)
            for launch in plan.launches
        )
    )


NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-40, 2000) | st.sampled_from([2**31, 2**32, 2**63, -(2**63)])
PLACES = [
    *[("inputs", 0, part) for part in (0, 1)],
    *[("outputs", 0, part) for part in (0, 1)],
    *[at(name, axis) for name in ("grid", "block", "blob", "parameters") for axis in range(3)],
    *[at("patches", patch, part) for patch in (0, 1) for part in range(3)],
    at("shared_bytes"),
]


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), NUMBERS), min_size=1, max_size=4))
def test_whatever_the_numbers_are_a_plan_fits_or_is_refused(text, changes):
    plan = msgspec.msgpack.decode(base64.b64decode(text))
    for path, value in changes:
        part = plan
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
    try:
        damaged = base64.b64encode(msgspec.msgpack.encode(plan)).decode()
    except OverflowError:
        return
    try:
        read = embedded.read(damaged)
    except BridgeError:
        return
    assert fits(read)


@given(st.data())
def test_flipped_bytes_are_refused_or_harmless(text, data):
    content = bytearray(base64.b64decode(text))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = embedded.read(base64.b64encode(content).decode())
    except BridgeError:
        return
    assert fits(read)
