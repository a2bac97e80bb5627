"""Numbers as a table shows them."""

import math

import pytest

from reports.render.units import (
    ABSENT,
    count_text,
    ms_text,
    percent_text,
    rate_text,
    ratio_text,
    time_range_text,
    time_text,
    ulp_text,
)

TEXTS = {
    time_text: {
        0.5: "0.500 ns", 1.0: "1.00 ns", 12.34: "12.3 ns", 999.4: "999 ns", 999.7: "1.00 µs", 9995.0: "9.99 µs",
        9996.0: "10.0 µs", 123456.0: "123 µs", 1e6: "1.00 ms", 4.5e9: "4.50 s", 1.234e12: "1230 s", None: ABSENT,
    },
    ratio_text: {
        0.0123: "0.012", 0.0999: "0.10", 0.853: "0.85", 1.0: "1.00", 9.996: "10.0", 12.34: "12.3", 1234.0: "1230",
        None: ABSENT, math.inf: "inf",
    },
    percent_text: {
        0.0: "0", 0.0004: "<0.1", 0.0421: "4.2", 0.0996: "10", 0.454: "45", 1.6: "160", 812.0: "8.1e+04",
        math.inf: "inf", math.nan: "nan",
    },
    ulp_text: {0.0: "0", 2.0: "2", 0.52: "0.52", 812.3: "812", 1e9: "1.0e+09", math.inf: "inf"},
    ms_text: {0.25: "250 µs", 0.0: "0 ms"},
    count_text: {1048576: "1,048,576"},
}  # fmt: skip


@pytest.mark.parametrize("function", TEXTS, ids=lambda function: function.__name__)
def test_numbers_are_short_and_have_a_fitting_unit(function):
    assert {number: function(number) for number in TEXTS[function]} == TEXTS[function]


def test_a_range_is_in_the_unit_of_its_median_and_a_rate_in_a_fitting_one():
    assert time_range_text(999.0, 1010.0, 1001.0) == "0.999\N{EN DASH}1.01"
    assert time_range_text(1.2e6, 1.3e6, 1.25e6) == "1.20\N{EN DASH}1.30"
    assert [rate_text(rate, "B/s") for rate in (4.02e12, 0.5)] == ["4.02 TB/s", "0.500 B/s"]
