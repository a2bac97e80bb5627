"""A spiking network has the same results on any number of devices and processes, and a wrong one gets no times."""

import argparse

import jax
import msgspec
import numpy as np
import pytest

from suites.backends.backend import Backend
from suites.bench.visible_gpus import VARIABLE, begin_with_own_gpu, visible_gpus
from suites.cells.selection import SelectionError
from suites.scale import scaling_process, spiking_network
from suites.scale.scale_command import measured, plans, scaling_table
from suites.scale.scaling_process import ScalingResult, ScalingSeries, usual_counts
from suites.scale.spiking_network import AXIS, Network, mesh_of
from suites.unit.processes import run

STEPS = 40


def last_state(count, backend=None):
    network = Network(mesh_of(jax.devices("cpu")[:count]), 96, 16, backend or Backend.NUMBA)
    return jax.tree.map(np.asarray, network.simulation(STEPS)())


def test_results_do_not_depend_on_the_number_of_devices():
    alone = last_state(1)
    assert STEPS < alone.counts.sum() < STEPS * alone.counts.size / 2  # it neither dies nor runs away
    for count in (3, 4):
        many = last_state(count)
        assert all(np.array_equal(one, other) for one, other in zip(alone, many, strict=True))


def test_a_network_agrees_with_dense_matrices():
    """Every neuron receives the weights of the neurons that fired, less those that are sent to it."""
    network = Network(mesh_of(jax.devices("cpu")[:2]), 96, 16, Backend.NUMBA)
    excitatory, inhibitory, state = jax.tree.map(np.asarray, network.synapses_and_state)
    rows = np.repeat(np.arange(96), 16)
    received, sent = np.zeros((96, 96)), np.zeros((96, 96))
    np.add.at(received, (rows, excitatory.indices), excitatory.data)
    np.add.at(sent, (rows, inhibitory.indices), inhibitory.data)
    V, spikes, counts = state.V.astype(np.float64), state.spikes, np.zeros(96)
    for _ in range(STEPS):
        V = V + (-(V + 70) / 20 + 1 + received @ spikes - spikes @ sent)
        spikes = V >= -55
        V, counts = np.where(spikes, -70, V), counts + spikes
    final = last_state(2)
    assert np.array_equal(final.counts, counts)
    assert np.abs(final.V - V).max() < 1e-3


@pytest.mark.parametrize(("neurons", "synapses", "said"), [(97, 4, "evenly over 2"), (2**20, 2**13, "2\\*\\*31")])
def test_sizes_that_do_not_fit_are_refused(neurons, synapses, said):
    with pytest.raises(ValueError, match=said):
        Network(mesh_of(jax.devices("cpu")[:2]), neurons, synapses, Backend.NUMBA)


def options(**changes):
    usual = {
        "device": "cpu", "devices": None, "processes": 1, "neurons": 66, "synapses": 8, "backend": None, "steps": 5,
        "rounds": 2,
    }  # fmt: skip
    return argparse.Namespace(**usual | changes)


@pytest.mark.parametrize(("processes", "devices"), [(2, (1, 2)), (4, (4,))])
def test_processes_that_jax_connects_have_the_results_of_one(processes, devices):
    result = measured(plans(options(processes=processes, devices=devices)), 280)
    assert result.error is None
    neurons = 66 // processes * processes
    found = [(series.mode, series.devices, series.neurons, len(series.steps_ms)) for series in result.series]
    assert found == [
        (mode, count, neurons * (count if mode == "weak" else 1), 2) for mode in ("weak", "strong") for count in devices
    ]


def test_a_wrong_result_gets_no_times(monkeypatch):
    """Each device keeps its own share of the currents, and drops what the others send to it."""

    def unsummed(sent, axis, tiled):
        part = sent.shape[0] // jax.lax.axis_size(AXIS)
        return jax.lax.dynamic_slice_in_dim(sent, jax.lax.axis_index(axis) * part, part)

    monkeypatch.setattr(spiking_network.lax, "psum_scatter", unsummed)
    (plan,) = plans(options(devices=[1, 2]))
    result = scaling_process.measure(plan)
    assert (result.series, result.is_wrong) == ([], True)
    assert "other results on 2 devices" in result.error


def test_more_devices_than_there_are():
    (plan,) = plans(options(devices=[len(jax.devices("cpu")) + 1]))
    result = scaling_process.measure(plan)
    assert result.series == []
    assert f"there are {len(jax.devices('cpu'))} devices" in result.error


def test_a_process_that_fails_ends_the_group():
    waiting, failing = plans(options(processes=2))
    with pytest.raises(SelectionError, match=r"process 1 ended with exit code 1: .*absent"):
        measured([waiting, msgspec.structs.replace(failing, device="absent")], 240)


def test_the_last_line_of_a_process_that_fails_says_why(tmp_path):
    (plan,) = plans(options())
    text = msgspec.json.encode(msgspec.structs.replace(plan, backend="absent", output=str(tmp_path / "out"))).decode()
    done = run("-m", "suites.scale.scaling_process", text)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("AttributeError: "), done.stderr


@pytest.mark.parametrize(
    ("backend", "said"), [("fortran", "no kernels of it on cpu"), ("numba_cuda", "Known: jnp, numba")]
)
def test_backends_that_the_network_has_no_kernels_of(backend, said):
    with pytest.raises(SelectionError, match=f"--backend {backend}: .*{said}"):
        plans(options(backend=backend))


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0")
    with pytest.raises(SelectionError, match="there are 1 GPUs"):
        plans(options(device="cuda", processes=2))


def test_efficiencies():
    series = [
        ScalingSeries("weak", 1, 100, [1.0, 2.0, 3.0]),
        ScalingSeries("weak", 2, 200, [2.0, 2.5, 3.0]),
        ScalingSeries("strong", 1, 100, [1.0, 2.0, 3.0]),
        ScalingSeries("strong", 2, 100, [0.5, 2.0, 2.0]),
    ]
    result = ScalingResult("some GPU", {"jax": "1"}, series)
    table = scaling_table(msgspec.json.decode(msgspec.json.encode(result), type=ScalingResult), 1, 8)
    shown = [row.cells[4].text for row in table.rows]
    assert shown == [
        "100.0% (100.0% to 100.0%)", "80.0% (50.0% to 100.0%)", "100.0% (100.0% to 100.0%)", "75.0% (50.0% to 100.0%)"
    ]  # fmt: skip
    assert "some GPU, 1 process, jax 1" in table.notes[0]


@pytest.mark.parametrize(("most", "expected"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_the_usual_numbers_of_devices(most, expected):
    assert usual_counts(most) == expected


@pytest.mark.parametrize(
    ("given", "worker", "expected"),
    [
        (None, "gw0", "0,1,2,3"),
        (None, "gw1", "1,2,3,0"),
        (None, "gw6", "2,3,0,1"),
        (None, None, None),  # no worker: nothing is set
        (None, "master", "0,1,2,3"),
        ("5,7", "gw1", "7,5"),
        ("GPU-a,GPU-b,-1,GPU-c", "gw1", "GPU-b,GPU-a"),
        ("3", "gw1", "3"),
        ("", "gw1", ""),
    ],
)
def test_each_worker_begins_with_another_gpu(monkeypatch, given, worker, expected):
    for name, value in ((VARIABLE, given), ("PYTEST_XDIST_WORKER", worker)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    begin_with_own_gpu(lambda: 4)
    assert (",".join(visible_gpus(lambda: 4)) if worker else None) == expected
