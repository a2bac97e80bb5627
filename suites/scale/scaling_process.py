"""Measures scaling in one process of a group: ``python -m suites.scale.scaling_process PLAN``.

All processes run this program on the same plan. JAX connects them (``jax.distributed``), and the devices of all of them
make one mesh. The first process takes the times and writes what was measured to the file that the plan names.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import msgspec
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from suites.bench import two_clocks
from suites.bench.parent_process import end_with_parent
from suites.bench.visible_gpus import visible_gpus

if TYPE_CHECKING:
    from suites.scale.spiking_network import Network, State

SMALL_PART, SMALL_SYNAPSES, SMALL_STEPS = 32, 16, 30
"""The network on which the results are checked before anything is timed: its neurons a device, synapses and steps."""

_MOST_ROUNDING = 1e-3
"""Of a potential, in mV, after the steps of the check; one spike more or less changes it by 15."""


class ScalingPlan(msgspec.Struct, frozen=True):
    """What a group of processes measures.

    Attributes:
        device: ``cpu`` or ``cuda``.
        backend: The backend of the kernels.
        counts: The numbers of devices. Empty: 1, 2, 4 and so on, and all devices.
        neurons: Of weak scaling, on each device; of strong scaling, on all devices together.
        synapses: Of a neuron, of each of two kinds.
        steps: In a timed call.
        rounds: How often each network is timed; the networks take turns.
        processes: The number of processes.
        process: Which of them this is.
        coordinator: Host and port at which the processes meet.
        cpu_devices: CPU devices of each process.
        output: The file for the results.
    """

    device: str
    backend: str
    counts: tuple[int, ...]
    neurons: int
    synapses: int
    steps: int
    rounds: int
    processes: int
    process: int
    coordinator: str
    cpu_devices: int
    output: str


class ScalingSeries(msgspec.Struct, frozen=True):
    """The times of one network.

    Attributes:
        mode: ``weak`` or ``strong``.
        devices: The number of devices.
        neurons: On all of them together.
        steps_ms: Milliseconds of a step, in each round.
    """

    mode: str
    devices: int
    neurons: int
    steps_ms: list[float]


class ScalingResult(msgspec.Struct, frozen=True):
    """What a group of processes measured.

    Attributes:
        kind: The kind of the devices.
        versions: Of the packages, by name.
        series: The times.
        error: Why there are no times: a result was wrong, or the plan cannot be carried out. None if there are.
        is_wrong: Whether a result was wrong.
    """

    kind: str
    versions: dict[str, str]
    series: list[ScalingSeries]
    error: str | None = None
    is_wrong: bool = False


def connect(plan: ScalingPlan) -> None:
    """Prepares JAX, and connects the processes; before anything else uses JAX."""
    if plan.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", plan.cpu_devices)
    if plan.processes > 1:
        jax.distributed.initialize(plan.coordinator, plan.processes, plan.process, local_device_ids=_own_devices(plan))


def _own_devices(plan: ScalingPlan) -> list[int] | None:
    """The GPUs of this process: each has an equal part of the GPUs of this host."""
    if plan.device == "cpu":
        return None
    count = len(visible_gpus()) // plan.processes
    return list(range(plan.process * count, (plan.process + 1) * count))


def measure(plan: ScalingPlan) -> ScalingResult:
    """Checks the network on each number of devices, and then times it.

    The number of neurons is rounded down to one that all numbers of devices divide.

    Returns:
        The times, in the first process, which takes part in every network. In the others, some are missing.
    """
    devices = sorted(jax.devices(plan.device), key=lambda device: (device.process_index, device.id))
    versions = {name: sys.modules[name].__version__ for name in ("jax", "jaxlib")}
    kind = devices[0].device_kind

    def failed(error: str, is_wrong: bool = False) -> ScalingResult:
        return ScalingResult(kind, versions, [], error, is_wrong)

    counts = plan.counts or usual_counts(len(devices))
    if max(counts) > len(devices):
        return failed(f"there are {len(devices)} devices, not {max(counts)}. Take --devices {len(devices)} or fewer.")
    wrong = _wrong(plan, devices, counts)
    if wrong is not None:
        return failed(wrong, is_wrong=True)
    multiple = int(np.lcm.reduce(counts))
    neurons = plan.neurons // multiple * multiple
    if neurons == 0:
        return failed(f"{plan.neurons} neurons cannot be split over {counts} devices. Take at least {multiple}.")
    try:
        networks = {
            (mode, count): _network(plan, devices[:count], neurons * (count if mode == "weak" else 1))
            for mode in ("weak", "strong")
            for count in counts
        }
    except ValueError as error:
        return failed(str(error))
    # On one device both are the same network, which runs once.
    programs = {key: network.simulation(plan.steps) for key, network in networks.items() if key != ("strong", 1)}
    finals: dict[tuple[str, int], bytes] = {}
    for key, program in programs.items():  # compiles it
        _barrier(plan, f"first {key}")
        if _takes_part(networks[key]):
            finals[key] = _bits(networks[key], program())
    alone = finals.get(("weak", 1))
    differing = [count for count in counts[1:] if alone is not None and finals["strong", count] != alone]
    if differing:
        return failed(f"the network has other results on {differing[0]} devices than on one.", is_wrong=True)
    samples: dict[tuple[str, int], list[float]] = {key: [] for key in programs}
    for number in range(plan.rounds):
        for key, program in programs.items():
            _barrier(plan, f"{number} {key}")
            if _takes_part(networks[key]):
                begin = two_clocks.wall()
                jax.block_until_ready(program())
                samples[key].append((two_clocks.wall() - begin) * 1e3 / plan.steps)
    if ("weak", 1) in samples:
        samples["strong", 1] = samples["weak", 1]
    series = [ScalingSeries(*key, networks[key].neurons, samples[key]) for key in networks]
    return ScalingResult(kind, versions, series)


def usual_counts(most: int) -> tuple[int, ...]:
    """Returns 1, 2, 4 and so on up to ``most``, and ``most`` itself."""
    return tuple(sorted({2**power for power in range(most.bit_length())} | {most}))


def _wrong(plan: ScalingPlan, devices: Sequence[jax.Device], counts: Sequence[int]) -> str | None:
    """Says on how many devices a small network has other results than ``jnp`` on one; None if there are none."""
    from suites.backends.backend import Backend
    from suites.scale.spiking_network import Network, mesh_of

    neurons = SMALL_PART * int(np.lcm.reduce(counts))
    alone = mesh_of([device for device in devices if device.process_index == jax.process_index()][:1])
    reference = Network(alone, neurons, SMALL_SYNAPSES, Backend.JNP)
    expected = _whole(reference, reference.simulation(SMALL_STEPS)())
    found = None
    for count in counts:
        network = _network(plan, devices[:count], neurons, SMALL_SYNAPSES)
        _barrier(plan, f"check {count}")
        if not _takes_part(network):
            continue
        result = _whole(network, network.simulation(SMALL_STEPS)())
        same = np.array_equal(result.counts, expected.counts) and expected.counts.any()
        if not (same and np.abs(result.V - expected.V).max() < _MOST_ROUNDING):
            found = f"{plan.backend}: the network has other results on {count} devices than jnp on one."
    return found


def _network(plan: ScalingPlan, devices: Sequence[jax.Device], neurons: int, synapses: int | None = None) -> Network:
    from suites.backends.backend import Backend
    from suites.scale.spiking_network import Network, mesh_of

    backend = getattr(Backend, plan.backend.upper())
    return Network(mesh_of(list(devices)), neurons, synapses or plan.synapses, backend)


def _takes_part(network: Network) -> bool:
    return any(device.process_index == jax.process_index() for device in network.mesh.devices.flat)


def _whole(network: Network, state: State) -> Any:
    """The state with all of its parts on this process, as NumPy arrays."""
    replicated = NamedSharding(network.mesh, PartitionSpec())
    gathered = jax.jit(lambda state: state, out_shardings=replicated)(state)
    return jax.tree.map(lambda array: np.asarray(array.addressable_data(0)), gathered)


def _bits(network: Network, state: State) -> bytes:
    return b"".join(array.tobytes() for array in _whole(network, state))


def _barrier(plan: ScalingPlan, name: str) -> None:
    if plan.processes > 1:
        multihost_utils.sync_global_devices(name)


def main(text: str) -> int:
    """Carries out a plan, given as JSON; returns the exit code. The last line of its output says why it failed."""
    end_with_parent()
    plan = msgspec.json.decode(text, type=ScalingPlan)
    try:
        connect(plan)
        result = measure(plan)
    except Exception as error:
        traceback.print_exc()
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr, flush=True)
        os._exit(1)  # the other processes would be waited for
    if plan.process == 0:
        # In one step: the program that waits for the file must not see half of it.
        whole = Path(f"{plan.output}.whole")
        whole.write_bytes(msgspec.json.encode(result))
        whole.replace(plan.output)
    if plan.processes > 1:
        jax.distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
