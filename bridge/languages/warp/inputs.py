"""Keeps kernels from changing their inputs: decides which inputs a kernel gets as copies.

JAX's arrays do not change, and others may use the memory of an input. The kernel gets the memory itself only if the
generated code shows that nothing is written to it. Any other input shares its buffer with an extra result of the call,
which is dropped. XLA then copies the input, unless nothing else uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import warp as wp

from bridge.errors import KernelCompileError, SignatureError
from bridge.languages.warp.generated import Generated, generated
from bridge.languages.warp.launch_spec import Spec
from bridge.languages.warp.parameters import Parameter, Role
from bridge.languages.warp.uses import Uses
from bridge.signature.array_types import Signature


@dataclass(frozen=True)
class KernelUses:
    """What a kernel and its adjoint do with the memory of their arrays, on any platform."""

    forward: Uses
    backward: Uses


def kernel_uses(kernel: wp.Kernel, platforms: Sequence[str], block_dim: int | None) -> KernelUses:
    """Reads the code that Warp generates from a kernel for each platform.

    Args:
        kernel: A kernel that is not generic.
        platforms: JAX's names of the platforms.
        block_dim: Threads of a block; None for Warp's default.

    Raises:
        KernelCompileError: Warp generates no code for any of the platforms.
    """
    found: KernelUses | None = None
    refusal: KernelCompileError | None = None
    for platform in platforms:
        try:
            made = generated(kernel, platform, block_dim)
        except KernelCompileError as error:  # raised again when the kernel is compiled for this platform
            refusal = error
            continue
        here = KernelUses(made.uses(backward=False), made.uses(backward=True))
        found = here if found is None else KernelUses(found.forward | here.forward, found.backward | here.backward)
    if found is None:
        assert refusal is not None
        raise refusal
    return found


def check_not_written(kernel: wp.Kernel, parameters: Sequence[Parameter], uses: Uses) -> None:
    """Refuses a kernel that certainly writes to an input, whose author expects the values somewhere.

    Raises:
        SignatureError: It does.
    """
    for parameter in parameters:
        if parameter.is_array and parameter.role is Role.INPUT and uses.written(parameter.name):
            raise SignatureError(
                f"{kernel.key}({', '.join(each.name for each in parameters)}): the kernel writes to its input "
                f"{parameter.name!r}, but JAX's arrays do not change. Name it in in_out_argnames=[{parameter.name!r}] "
                "and count it in num_outputs, or put it among the outputs."
            )


def check_inputs(made: Generated, spec: Spec, signature: Signature) -> None:
    """Checks that the code to run does not write to an input of which it gets no copy.

    Raises:
        KernelCompileError: It may, because it is not the code that the call was traced with.
    """
    uses = made.uses(backward=spec.backward)
    for argument, declared in zip(spec.arguments, made.kernel.adj.args, strict=True):
        is_input = argument.shape is not None and argument.buffer < len(signature.inputs)
        if is_input and not signature.inputs[argument.buffer].writable and not uses.unwritten(declared.label):
            raise KernelCompileError(
                f"{made.kernel.key} may write to {declared.label!r}, which its code did not when the call was traced: "
                "a function, constant or setting has changed since. Trace the call again."
            )
