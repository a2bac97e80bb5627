"""Checks that operators tell their static parameters apart by content, and find the program for equal ones."""

import dataclasses
import datetime
import decimal
import math
import struct
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import ParameterError, XLACustomKernel
from bridge.operator import static_parameters
from bridge.operator.static_parameters import Parameters

SPEC = jax.ShapeDtypeStruct((), np.float32)
NAN_OF_OTHER_BITS = struct.unpack("=d", struct.pack("=Q", 0x7FF8000000000001))[0]


class Pair(NamedTuple):
    first: object
    second: object


@dataclasses.dataclass(frozen=True)
class Record:
    first: object
    second: object = 0


@dataclasses.dataclass
class Unhashable:
    first: object


class Meters(float):
    pass


def fresh(value):
    """An equal value that is another object, as far as Python makes one."""
    match value:
        case float() if type(value) is float:
            return struct.unpack("=d", struct.pack("=d", value))[0]
        case Pair():
            return Pair(*map(fresh, value))
        case tuple():
            return tuple(map(fresh, value))
        case frozenset():
            return frozenset(map(fresh, value))
        case Record():
            return Record(fresh(value.first), fresh(value.second))
        case np.generic():
            return value.copy()
        case _:
            return value


def written(value):
    """A text that is equal for equal contents: an independent statement of what tells values apart."""
    kind = type(value).__name__
    match value:
        case np.generic():
            return f"{kind} {value.tobytes().hex()}"
        case float():
            return f"{kind} {struct.pack('=d', value).hex()}"
        case complex():
            return f"{kind} {written(value.real)} {written(value.imag)}"
        case tuple():
            return f"{kind}({', '.join(map(written, value))})"
        case frozenset():
            return f"{kind}({', '.join(sorted(map(written, value)))})"
        case Record():
            return f"{kind}({written(value.first)}, {written(value.second)})"
        case _:
            return f"{kind} {value!r}"


NUMBERS = st.one_of(
    st.sampled_from(
        [0, 1, True, False, 0.0, -0.0, 1.0, math.nan, NAN_OF_OTHER_BITS, math.inf, 0j, complex(-0.0, 0), 1j]
    ),
    st.sampled_from([np.float32(0), np.float32(-0.0), np.float64(0), np.float64("nan"), np.int32(1), np.bool_(1)]),
    st.sampled_from([None, "", "1", b"1", Meters(0.0), Meters(-0.0)]),
    st.integers(-2, 2),
    st.floats(width=16),
)
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
        st.builds(Pair, inner, inner),
        st.builds(Record, inner, inner),
    ),
    max_leaves=5,
)


class TestContents:
    @given(VALUES, VALUES)
    def test_values_are_equal_if_they_are_written_alike(self, one, other):
        first, second = Parameters({"value": one}), Parameters({"value": other})
        assert (first == second) is (written(one) == written(other))

    @given(VALUES)
    def test_a_value_equals_itself(self, value):
        first, second = Parameters({"value": value}), Parameters({"value": fresh(value)})
        assert first == second
        assert hash(first) == hash(second)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
            (range(0, 3, 2), range(0, 4, 2)),
            (datetime.time(1, fold=0), datetime.time(1, fold=1)),
            ((1.0,) * 100, (1,) * 100),
            ((1.0,) * 100, (*(1.0,) * 99, True)),
            ((0.0,) * 100, (*(0.0,) * 99, -0.0)),
            (("a", "b"), (("a",), "b")),
            (frozenset({math.nan}), frozenset({math.nan, fresh(math.nan)})),
        ],
        ids=repr,
    )
    def test_objects_that_python_calls_equal(self, one, other):
        assert Parameters({"value": one}) != Parameters({"value": other})
        assert Parameters({"value": one}) == Parameters({"value": one})

    def test_names_count_and_their_order_does_not(self):
        assert Parameters({"a": 1, "b": 2}) == Parameters({"b": 2, "a": 1})
        assert Parameters({"a": 1}) != Parameters({"b": 1})
        assert Parameters({"a": 1}) != {"a": 1}

    @pytest.mark.parametrize("value", [[], ([],), {}, Unhashable(1), Record([])], ids=repr)
    def test_a_value_that_cannot_be_hashed_is_refused(self, value):
        with pytest.raises(TypeError, match="unhashable"):
            Parameters({"value": value})

    def test_a_large_container_is_walked_once(self, monkeypatch):
        large = tuple(float(index) for index in range(1000))
        first = Parameters({"value": large})
        monkeypatch.setattr(static_parameters, "_Walk", None)
        assert Parameters({"value": large}) == first

    def test_few_containers_are_kept(self):
        for size in range(100):
            Parameters({"value": tuple(range(size, size + 1000))})
        assert len(static_parameters._recent) <= static_parameters._KEPT

    def test_an_object_that_may_change_is_looked_at_again(self):
        class Changing:
            content = 1

            def __eq__(self, other):
                return isinstance(other, Changing) and self.content == other.content

            def __hash__(self):
                return hash(self.content)

        changing = Changing()
        container = (changing,) * 100
        Parameters({"value": container})
        changing.content = 2
        other = Changing()
        other.content = 2
        assert Parameters({"value": container}) == Parameters({"value": (other,) * 100})


def sign_of(value):
    """A number that differs between values which Python calls equal."""
    while isinstance(value, tuple | frozenset | Record):
        value = value.first if isinstance(value, Record) else next(iter(value))
    return math.copysign(1 + 2 * isinstance(value, bool) + 4 * isinstance(value, int), value)


@pytest.fixture
def traced():
    """An operator whose result tells which parameter its kernel was made for, and the list of these parameters."""
    made = []

    def generator(outs, value):
        made.append(value)
        return lambda: jnp.float32(sign_of(value))

    op = XLACustomKernel("sign")
    op.def_kernel("mine", "cpu", generator)
    return op, made


class TestCalls:
    @pytest.mark.parametrize(
        "contain", [lambda v: v, lambda v: (v,), lambda v: frozenset({v}), Record, lambda v: Pair(v, 0)]
    )
    @pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1, True), (1, 1.0), (True, 1.0)])
    def test_no_call_gets_the_program_of_another_value(self, traced, contain, one, other):
        op, _ = traced
        for value in (one, other):
            assert op(outs=SPEC, value=contain(value)) == sign_of(value)
            assert jax.jit(lambda value=value: op(outs=SPEC, value=contain(value)))() == sign_of(value)

    @pytest.mark.parametrize(
        "contain", [lambda v: v, lambda v: (v,), lambda v: frozenset({v}), Record, lambda v: (1, (v,))]
    )
    def test_nan_is_compiled_once(self, traced, contain):
        op, made = traced
        for _ in range(3):
            op(outs=SPEC, value=contain(fresh(math.nan)))
        assert len(made) == 1

    def test_a_configuration_counts_by_content_too(self, traced):
        op, _ = traced
        generator = op._kernels["cpu"]["mine"]
        for value in (0.0, -0.0, 1, True, 1.0):
            op.def_kernel("mine", "cpu", generator, configurations={"only": {"value": value}})
            assert op(outs=SPEC) == sign_of(value)

    def test_a_parameter_that_cannot_be_hashed_is_named(self, traced):
        op, _ = traced
        with pytest.raises(ParameterError, match=r"'value' is \[1\] of type list, which is not hashable"):
            op(outs=SPEC, value=[1])
        with pytest.raises(ParameterError, match=r"'value' is .*Unhashable"):
            op(outs=SPEC, value=Unhashable(1))
