"""Machines of one model differ, and a machine stays itself."""

import pytest

from suites.timing import run_header
from suites.timing.run_header import machine_id, memory_bytes

GIB = 1 << 30
ID, BOOT = "3f2a" * 8, "9c8b-boot"
HOST = {"etc/machine-id": ID + "\n", run_header._BOOT_ID: BOOT}
OVERLAY = HOST | {"proc/self/mounts": "overlay / overlay rw,lowerdir=a 0 0\nproc /proc proc rw 0 0\n"}


@pytest.fixture
def tree(tmp_path):
    """Makes a root folder with these files."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("files", "variables", "found"),
    [
        (HOST, {}, ID),
        (HOST, {"KERNEL_BRIDGE_MACHINE": " runner-7 "}, "runner-7"),
        (HOST | {"etc/machine-id": "uninitialized\n"}, {}, BOOT),
        (HOST | {".dockerenv": ""}, {}, BOOT),
        (HOST, {"container": "podman"}, BOOT),
        (OVERLAY, {}, BOOT),
        ({}, {}, None),
    ],
    ids=["host", "named", "empty", "docker", "podman", "kubernetes", "none"],
)
def test_the_id_is_the_machines_and_not_an_images(tree, files, variables, found):
    assert machine_id(tree(files), variables) == found


@pytest.fixture
def own_id(monkeypatch):
    monkeypatch.setattr(run_header, "machine_id", lambda: ID)
    return run_header.machine_identity("EPYC", 2, 16 * GIB)


def test_a_machine_is_the_same_the_next_day(own_id):
    """The kernel may reserve a few pages more when it starts again."""
    assert run_header.machine_identity("EPYC", 2, 16 * GIB - (1 << 22)) == own_id
    assert len(own_id) == 16
    assert ID[:8] not in own_id


@pytest.mark.parametrize("facts", [("Xeon", 2, 16), ("EPYC", 4, 16), ("EPYC", 2, 32)])
def test_other_hardware_is_another_machine(own_id, facts):
    cpu, cores, gib = facts
    assert run_header.machine_identity(cpu, cores, gib * GIB) != own_id


def test_this_machine_has_an_identity_and_memory():
    assert machine_id()
    assert memory_bytes() > 1 << 27
