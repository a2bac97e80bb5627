"""Medians, quantiles and their relative error."""

import math
import random

import pytest

from reports.records.quantiles import MIN_SAMPLES, grouped_median, median_relative_error, quantile


def test_quantile_interpolates_between_neighbours():
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([10.0, 20.0, 30.0], 0.2) == pytest.approx(14.0)


def test_quantile_of_one_sample_is_that_sample():
    assert quantile([7.0], 0.8) == 7.0


def test_relative_error_takes_the_ranks_of_the_formula():
    # n = 25: ranks floor((25 - 9.8) / 2) = 7 and 1 + ceil((25 + 9.8) / 2) = 19; the median is 13.
    samples = [float(value) for value in range(1, 26)]
    assert median_relative_error(samples) == pytest.approx((19 - 7) / 2 / 13)


def test_relative_error_ignores_an_outlier():
    samples = [100.0] * 40
    assert median_relative_error([*samples, 1e9]) == 0.0


def test_relative_error_of_too_few_samples_is_unbounded():
    assert median_relative_error([1.0] * (MIN_SAMPLES - 1)) == math.inf
    assert median_relative_error([1.0] * MIN_SAMPLES) == 0.0


@pytest.mark.parametrize("true", [870.0, 885.0, 890.0])
def test_a_grouped_median_finds_what_lies_between_two_ticks(true):
    draw = random.Random(1)
    samples = [32 * round(draw.gauss(true, 40) / 32) + draw.choice([0, 1]) for _ in range(4000)]
    assert grouped_median(samples, 32) == pytest.approx(true, abs=3)
    assert quantile(samples, 0.5) in (864, 865, 896, 897)
