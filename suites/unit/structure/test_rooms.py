"""The rooms of the house: what may import what, and that nothing leads back up."""

import pytest

from suites.unit.structure.house import arrows, circle, folders, imports, modules

ROOMS: dict[str, object] = {
    "bridge": {},
}


@pytest.mark.parametrize("folder", folders())
def test_no_room_leads_back_to_itself(folder):
    # The face of a package hands names on: rooms of the package do not import it.
    pairs = {(one, other) for one, other in arrows(folder)}
    assert circle(pairs) is None


def test_no_module_leads_back_to_itself():
    faces = {name for name, module in modules().items() if module.is_face}
    assert circle((one, other) for one, other in imports() if one not in faces) is None
