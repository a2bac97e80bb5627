"""Where a backend treats special values otherwise than jnp, the table says so, and nothing else."""

import numpy as np
import pytest

from suites.cells import catalogue
from suites.cells.selection import Selection
from suites.sessions.commands.special import differences, special_table

OURS = np.array([1, np.nan, np.inf, -0.0, 1e-40, 5], np.float32)


@pytest.mark.parametrize(
    ("place", "value", "kind"),
    [(1, 2.0, "NaN"), (2, -np.inf, "infinity"), (2, 7.0, "infinity"), (3, 0.0, "sign of zero"), (4, 0.0, "subnormal")],
)
def test_each_kind_of_difference_is_named_with_its_place(place, value, kind):
    theirs = OURS.copy()
    theirs[place] = value
    ((found, example),) = differences([OURS], [theirs])
    assert found == kind
    assert example == f"output 0[{place}]: {OURS[place]!s}, jnp {theirs[place]!s}"


def test_rounding_and_equal_values_are_no_difference():
    theirs = OURS.copy()
    theirs[[0, 5]] = 1.0000001, 6
    assert not list(differences([OURS, np.arange(3)], [theirs, np.arange(3)]))


def test_the_table_lists_what_differs_and_counts_what_was_compared():
    table = special_table(Selection(operators=("split_sign",), backends=("numba",)))
    found = {(row[0].text, row[1].text, row[3].text) for row in table.rows}
    assert found == {("split_sign", "numba", "sign of zero")}
    assert table.notes[0].startswith("1 kernels were compared")
    assert catalogue.operators()["split_sign"].edges("float32")["minus_zero"][0].size
