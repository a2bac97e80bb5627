"""Repeats a function with conditions on CUDA: Warp captures a graph with them, which XLA cannot record itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import warp as wp

MOST = 32
"""Graphs of a function that are kept, as by ``warp.jax_callable``."""


class WarpGraphs:
    """The graphs of one function, by the addresses of a call. It is captured when addresses come a second time.

    The least recently used ones are forgotten, so that calls whose addresses never come again capture nothing. What
    Warp cannot capture, such as a temporary that is made within a condition, is called in Python each time.
    """

    def __init__(self) -> None:
        self._graphs: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._fails = False

    def run(self, addresses: tuple[int, ...], device: Any, function: Callable[[], None]) -> None:
        """Calls the function on the current stream of Warp, or launches its graph there."""
        is_known, graph = addresses in self._graphs, self._graphs.pop(addresses, None)
        if is_known and graph is None:
            graph = self._capture(device, function)
        if graph is None:
            function()
        else:
            wp.capture_launch(graph)
        if not self._fails:
            self._graphs[addresses] = graph
        while len(self._graphs) > MOST:
            self._graphs.popitem(last=False)

    def _capture(self, device: Any, function: Callable[[], None]) -> Any:
        try:
            # Not on XLA's stream, which an error would leave in another state.
            with wp.ScopedStream(wp.Stream(device), sync_enter=False), wp.ScopedCapture() as capture:
                function()
        except Exception:  # if the function is at fault, it says so when it is called again
            self._fails = True
            return None
        return capture.graph


def can_capture(device: Any) -> bool:
    """Whether Warp captures graphs with conditions on a device, and temporaries of the function in them."""
    return bool(device.is_cuda and wp.is_conditional_graph_supported() and wp.is_mempool_enabled(device))
