"""Runs a network of spiking neurons on the devices of a mesh, with kernels of the built-in operators.

Each device has an equal part of the neurons, and steps them with ``lif_step``. Each neuron has two kinds of synapses:

- Excitatory synapses are rows of a matrix by the neuron that receives. A device needs the spikes of all neurons for
  its rows, so the spikes are gathered (``all_gather``), and ``csr_binary_matvec`` sums the weights.
- Inhibitory synapses are rows of a matrix by the neuron that sends. A device computes what its neurons send to all
  neurons with ``csr_rmatvec``, and the currents of all devices are summed and split (``psum_scatter``).

All weights are multiples of :data:`QUANTUM`, so that sums are exact in any order. So a network has the same results,
to the bit, on any number of devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from suites.backends.backend import Backend
from suites.declare.operator import Operator
from suites.ops.csr_binary_matvec import OPERATOR as GATHERED
from suites.ops.csr_rmatvec import OPERATOR as SCATTERED
from suites.ops.lif_step import OPERATOR as LIF

AXIS = "neurons"
"""The mesh axis over which neurons and synapses are split."""

QUANTUM = 2.0**-10
"""Every weight and current is a multiple of it. Their sums stay below 2**13, so float32 holds them exactly."""

_HEAVIEST = 256  # of the weights, in quanta
_DRIVE = 1.0  # lifts a neuron at rest over the threshold in about 28 steps
_REST, _THRESHOLD = -70.0, -55.0
_CONSTANTS = tuple(np.full(1, value, np.float32) for value in (1 / 20, _THRESHOLD, _REST, 1.0))
"""The inverse time constant, threshold, resting potential and step of the neurons, in ms and mV."""

KERNELS = (LIF, GATHERED, SCATTERED)
"""The operators of a step."""


class Synapses(NamedTuple):
    """Matrices in CSR form with one row for each neuron of a device. On a mesh, the parts of all devices in a row.

    Attributes:
        data: float32, the weights.
        indices: int32, the neuron at the other end of each synapse.
        indptr: int32, where each row begins in the part of its device, and the end of the last row.
    """

    data: jax.Array
    indices: jax.Array
    indptr: jax.Array


class State(NamedTuple):
    """The neurons.

    Attributes:
        V: float32, their potentials.
        spikes: bool, which of them fired in the last step.
        counts: int32, how often each fired.
    """

    V: jax.Array
    spikes: jax.Array
    counts: jax.Array


@dataclass(frozen=True)
class Network:
    """A network on a mesh.

    Attributes:
        mesh: A mesh with the one axis :data:`AXIS`.
        neurons: How many there are on all devices; a multiple of the number of devices.
        synapses: How many a neuron has of each kind.
        backend: The backend of the three operators :data:`KERNELS`.

    Raises:
        ValueError: The neurons cannot be split evenly, or the parts are too large for 32-bit indices.
    """

    mesh: Mesh
    neurons: int
    synapses: int
    backend: Backend

    def __post_init__(self) -> None:
        """Checks the sizes."""
        if self.neurons % self.mesh.size:
            raise ValueError(
                f"{self.neurons} neurons cannot be split evenly over {self.mesh.size} devices. "
                f"Take a multiple of {self.mesh.size}."
            )
        if max(self.part * self.synapses, self.neurons) >= 2**31:
            raise ValueError(
                f"{self.neurons} neurons with {self.synapses} synapses on {self.mesh.size} devices: a device has at "
                "most 2**31 - 1 synapses of a kind. Take fewer, or more devices."
            )

    @property
    def part(self) -> int:
        """The number of neurons of a device."""
        return self.neurons // self.mesh.size

    @cached_property
    def synapses_and_state(self) -> tuple[Synapses, Synapses, State]:
        """Returns the excitatory and the inhibitory synapses and the first state; each device draws its own part."""
        drawn: tuple[Synapses, Synapses, State] = self._on_each_device(self._drawn, 0)()
        return drawn

    def simulation(self, steps: int) -> Callable[[], State]:
        """Returns a function that runs the network for some steps from its first state, and returns the last one.

        Its arrays are split over the mesh. The function returns before the devices have finished, as JAX does.
        """

        def run(excitatory: Synapses, inhibitory: Synapses, state: State) -> State:
            last: State = lax.fori_loop(0, steps, lambda _, now: self._step(excitatory, inhibitory, now), state)
            return last

        program = self._on_each_device(run, 3)

        def simulated() -> State:
            return State(*program(*self.synapses_and_state))

        return simulated

    def _on_each_device(self, function: Callable[..., Any], inputs: int) -> Callable[..., Any]:
        split = PartitionSpec(AXIS)
        return jax.jit(jax.shard_map(function, mesh=self.mesh, in_specs=(split,) * inputs, out_specs=split))

    def _step(self, excitatory: Synapses, inhibitory: Synapses, state: State) -> State:
        # What every neuron receives from the neurons that fired: its row of the matrix reads the spikes of all.
        all_spikes = lax.all_gather(state.spikes, AXIS, tiled=True)
        exciting = self._call(GATHERED, *excitatory, all_spikes)
        # What this device sends to all neurons, and then what all devices send to the neurons of this one.
        sent = self._call(SCATTERED, *inhibitory, state.spikes.astype(jnp.float32), self._nothing())
        inhibiting = lax.psum_scatter(sent, AXIS, tiled=True)
        V, fired = self._call(LIF, state.V, _DRIVE + exciting - inhibiting, *_CONSTANTS, results=2)
        return State(V, fired != 0, state.counts + fired)

    def _call(self, operator: Operator, *inputs: Any, results: int = 1) -> Any:
        found = operator.build(self.backend, inputs)(*inputs)
        return found[0] if results == 1 else found

    def _nothing(self) -> Any:
        return lax.pcast(jnp.zeros(self.neurons, jnp.float32), AXIS, to="varying")

    def _drawn(self) -> tuple[Synapses, Synapses, State]:
        """The part of one device. What a neuron has depends on its number alone, and not on the number of devices."""
        rows = lax.axis_index(AXIS) * self.part + jnp.arange(self.part)
        indptr = lax.pcast(jnp.arange(self.part + 1, dtype=jnp.int32) * self.synapses, AXIS, to="varying")
        excitatory, inhibitory = (
            Synapses(
                QUANTUM * self._random(rows, 3 * kind, _HEAVIEST, self.synapses).astype(jnp.float32),
                self._random(rows, 3 * kind + 1, self.neurons, self.synapses),
                indptr,
            )
            for kind in range(2)
        )
        share = self._random(rows, 6, 1024, 1).astype(jnp.float32) / 1024
        V = _REST + share * (_THRESHOLD - _REST)
        return excitatory, inhibitory, State(V, jnp.zeros_like(V, bool), jnp.zeros_like(V, jnp.int32))

    def _random(self, rows: jax.Array, stream: int, end: int, count: int) -> jax.Array:
        """Random integers from 0 up to ``end``, ``count`` for each row."""
        key = jax.random.key(stream)

        def of_row(row: jax.Array) -> jax.Array:
            return jax.random.randint(jax.random.fold_in(key, row), (count,), 0, end, jnp.int32)

        return jnp.ravel(jax.vmap(of_row)(rows))


def mesh_of(devices: list[jax.Device]) -> Mesh:
    """Returns a mesh of these devices with the one axis :data:`AXIS`."""
    return Mesh(np.array(devices), (AXIS,))
