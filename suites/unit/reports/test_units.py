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


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((0.5, "0.500 ns"), (1.0, "1.00 ns"), (12.34, "12.3 ns"), (999.4, "999 ns")),
        *((999.7, "1.00 µs"), (9995.0, "9.99 µs"), (9996.0, "10.0 µs"), (123456.0, "123 µs")),
        *((1e6, "1.00 ms"), (4.5e9, "4.50 s"), (1.234e12, "1230 s"), (None, ABSENT)),
    ],
)
def test_times_have_three_digits_and_a_fitting_unit(ns, text):
    assert time_text(ns) == text


def test_a_range_is_in_the_unit_of_its_median():
    assert time_range_text(999.0, 1010.0, 1001.0) == "0.999\N{EN DASH}1.01"
    assert time_range_text(1.2e6, 1.3e6, 1.25e6) == "1.20\N{EN DASH}1.30"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        *((0.0123, "0.012"), (0.0999, "0.10"), (0.853, "0.85"), (1.0, "1.00"), (9.996, "10.0")),
        *((12.34, "12.3"), (1234.0, "1230"), (None, ABSENT), (math.inf, "inf")),
    ],
)
def test_ratios_are_short(ratio, text):
    assert ratio_text(ratio) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        *((0.0, "0"), (0.0004, "<0.1"), (0.0421, "4.2"), (0.0996, "10"), (0.454, "45"), (1.6, "160")),
        *((812.0, "8.1e+04"), (math.inf, "inf"), (math.nan, "nan")),
    ],
)
def test_percentages_are_short(share, text):
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("ulp", "text"),
    [(0.0, "0"), (2.0, "2"), (0.52, "0.52"), (812.3, "812"), (1e9, "1.0e+09"), (math.inf, "inf")],
)
def test_ulps_are_short(ulp, text):
    assert ulp_text(ulp) == text


def test_other_quantities():
    assert count_text(1048576) == "1,048,576"
    assert rate_text(4.02e12, "B/s") == "4.02 TB/s"
    assert rate_text(0.5, "B/s") == "0.500 B/s"
    assert ms_text(0.25) == "250 µs"
    assert ms_text(0.0) == "0 ms"
