"""Machines of one model differ, a machine stays itself, and containers and their limits are seen."""

import platform

import pytest

from suites.bench import machine_identity
from suites.bench.host_memory import available_bytes, memory_bytes
from suites.bench.machine_identity import is_container, machine_id

GIB = 1 << 30
ID, OTHER_ID, UUID, BOOT = "3f2a" * 8, "77b1" * 8, "4c4c4544-0035-4d10-8052-b7c04f4d3132", "9c8b-boot"
HOST = {"etc/machine-id": ID + "\n", "sys/class/dmi/id/product_uuid": UUID + "\n", machine_identity._BOOT_ID: BOOT}
IN_CONTAINER = HOST | {".dockerenv": ""}
MOUNTED = IN_CONTAINER | {"proc/self/mounts": "/dev/sda1 /etc/machine-id ext4 ro 0 0\n"}
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


def _without(files, *names):
    return {name: text for name, text in files.items() if name not in names}


@pytest.mark.parametrize(
    ("files", "variables", "found"),
    [
        (HOST, {}, ID),
        (HOST, {"KERNEL_BRIDGE_MACHINE": " runner-7 "}, "runner-7"),
        (HOST, {"KERNEL_BRIDGE_MACHINE": ""}, ID),
        (_without(HOST, "etc/machine-id") | {"var/lib/dbus/machine-id": OTHER_ID}, {}, OTHER_ID),
        (HOST | {"etc/machine-id": "uninitialized\n"}, {}, UUID),
        (IN_CONTAINER, {}, UUID),
        (HOST, {"container": "podman"}, UUID),
        (OVERLAY, {}, UUID),
        (MOUNTED, {}, ID),
        (_without(IN_CONTAINER, "sys/class/dmi/id/product_uuid"), {}, BOOT),
        ({}, {}, None),
    ],
    ids=["host", "named", "unset", "dbus", "empty", "docker", "podman", "kubernetes", "mounted", "hidden", "none"],
)
def test_the_id_is_the_machines_and_not_an_images(tree, files, variables, found):
    assert machine_id(tree(files), variables) == found


def test_containers_are_told_from_machines(tree):
    assert not is_container(tree(HOST), {})
    assert is_container(tree(IN_CONTAINER), {})


@pytest.fixture
def own_id(monkeypatch):
    monkeypatch.setattr(machine_identity, "machine_id", lambda: ID)
    return machine_identity.machine_identity("EPYC", 2, 16 * GIB)


def test_a_machine_is_the_same_the_next_day(own_id):
    """The kernel may reserve a few pages more when it starts again."""
    assert machine_identity.machine_identity("EPYC", 2, 16 * GIB - (1 << 22)) == own_id
    assert len(own_id) == 16
    assert ID[:8] not in own_id


@pytest.mark.parametrize("facts", [("Xeon", 2, 16), ("EPYC", 4, 16), ("EPYC", 2, 32)])
def test_other_hardware_is_another_machine(own_id, facts):
    cpu, cores, gib = facts
    assert machine_identity.machine_identity(cpu, cores, gib * GIB) != own_id


def test_another_id_or_release_is_another_machine(own_id, monkeypatch):
    monkeypatch.setattr(platform, "release", lambda: "99.1")
    assert machine_identity.machine_identity("EPYC", 2, 16 * GIB) != own_id
    monkeypatch.undo()
    monkeypatch.setattr(machine_identity, "machine_id", lambda: OTHER_ID)
    assert machine_identity.machine_identity("EPYC", 2, 16 * GIB) != own_id


def test_without_an_id_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(machine_identity, "machine_id", lambda: None)
    assert machine_identity.machine_identity("EPYC", 2, 16 * GIB) is None


MEMORY = {"proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 100 kB\nMemAvailable:    8000000 kB\n"}
NEW_GROUP = {
    "proc/self/cgroup": "0::/user/job\n",
    "sys/fs/cgroup/user/job/memory.max": "max\n",
    "sys/fs/cgroup/user/job/memory.current": "5\n",
    "sys/fs/cgroup/user/memory.max": "3000\n",
    "sys/fs/cgroup/user/memory.current": "1000\n",
}
OLD_GROUP = {
    "proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/abc\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",  # the container sees its own group at the top
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
}


@pytest.mark.parametrize(
    ("files", "left"),
    [(MEMORY, 8_000_000 << 10), (MEMORY | NEW_GROUP, 2000), (MEMORY | OLD_GROUP, 4000), ({}, None)],
    ids=["machine", "version_2", "version_1", "unknown"],
)
def test_available_memory_respects_the_limits_of_groups(tree, files, left):
    assert available_bytes(tree(files)) == left
    assert memory_bytes(tree(files)) == (16_000_000 << 10 if files else None)


def test_this_machine_has_an_identity_and_memory():
    assert machine_id()
    assert 0 < available_bytes() < memory_bytes()
