"""Kernels of lif_step in Numba, for CPUs."""

import numba

from suites.kernels.numba_cpu.blocks import ONE_THREAD_BELOW


@numba.njit
def lif_step(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    threshold, rest, leak, step = V_th[0], V_rest[0], tau_inv[0], dt[0]
    for i in range(V.size):
        v = V[i] + step * (-(V[i] - rest) * leak + current[i])
        spikes[i] = v >= threshold
        V_out[i] = rest if v >= threshold else v


@numba.njit(parallel=True)
def lif_step_parallel(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    if V.size < ONE_THREAD_BELOW:
        lif_step(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes)
    else:
        threshold, rest, leak, step = V_th[0], V_rest[0], tau_inv[0], dt[0]
        for i in numba.prange(V.size):
            v = V[i] + step * (-(V[i] - rest) * leak + current[i])
            spikes[i] = v >= threshold
            V_out[i] = rest if v >= threshold else v
