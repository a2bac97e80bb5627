"""Compares the parameters that a plan passes with those that the machine code takes, as CUDA's driver tells them."""

from __future__ import annotations

import importlib.metadata
import itertools
from collections.abc import Sequence

from bridge.errors import AbiError, SignatureError
from bridge.ffi.cuda import driver
from bridge.ffi.plans.device import Launch


def check_parameters(launches: Sequence[Launch]) -> None:
    """Refuses launches that pass other parameters than their kernels take: memory would be mistaken silently.

    Drivers before CUDA 12.4 do not tell what a kernel takes. Nothing is compared there.

    Raises:
        AbiError: The compiler lays parameters out in another way than the bridge knows.
        SignatureError: The user's own function takes other parameters.
    """
    for launch in launches:
        for ordinal, handle in enumerate(launch.handles):
            if handle == 0:  # there is no such device
                continue
            with driver.current(ordinal):
                taken = driver.parameter_sizes(handle)
            if taken is None or tuple(taken) == launch.sizes:
                continue
            pairs = enumerate(itertools.zip_longest(taken, launch.sizes, fillvalue=0))
            index, takes, passes = next((at, *pair) for at, pair in pairs if pair[0] != pair[1])
            what = f"{launch.name}: parameter {index} takes {takes} bytes, but the call passes {passes} there"
            if not launch.compiler:
                raise SignatureError(f"{what}. Pass a pointer for each array, and scalars of the parameters' types.")
            raise AbiError(
                f"{what}: {launch.compiler}{_version(launch.compiler)} lays parameters out in a way that kernel-bridge "
                "does not know. Install a version of it that docs/contributing.md lists as tried."
            )


def _version(package: str) -> str:
    """The version of a compiler; nothing where an exported program runs without it."""
    try:
        return f" {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return ""
