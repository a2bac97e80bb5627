"""Lets the second of two Numba-CUDA launches begin while the first still runs (*programmatic dependent launch*).

Between two launches on a stream a GPU is idle for a microsecond: it ends the first, makes its writes visible, and only
then starts the blocks of the second. A reduction of a million elements takes three. So the blocks of the second start
early, and wait inside::

    @kernel
    def first(x, partials):
        let_next_begin()  # as soon as all blocks have said so, or have ended
        ...

    @kernel
    def second(partials, out):
        await_launch()  # until the first launch has ended and its writes are visible
        ...

The bridge finds the instruction of :func:`await_launch` in the code of a kernel, and then allows its launch to begin
early in a replayed callable. In any other launch both functions do nothing, and so they do on GPUs before compute
capability 9.0 (PTX ISA, "griddepcontrol").

A kernel must call :func:`await_launch` before it reads or writes anything that an earlier launch uses: in all its
threads, and before anything else. Work after the second launch then comes after the first, too.
"""

from __future__ import annotations

from suites.kernels.numba_cuda.blocks import cuda


def let_next_begin():
    """Allows the next launch to begin, if it waits by itself. All blocks must call it, or end."""


def await_launch():
    """Waits until the launch before has ended, if this one was allowed to begin early."""


if cuda is not None and hasattr(cuda, "extending"):  # the simulator calls the Python functions
    from llvmlite import ir
    from numba.cuda import types

    from suites.kernels.numba_cuda.architectures import is_at_least

    _LEAST_CAPABILITY = 90

    def _where_it_exists(instruction):
        """The code generator of an instruction that older GPUs leave out."""

        def generate(context, builder, signature, args):
            with builder.if_then(is_at_least(builder, _LEAST_CAPABILITY)):
                builder.asm(ir.FunctionType(ir.VoidType(), []), instruction, "~{memory}", [], side_effect=True)
            return context.get_dummy_value()

        return generate

    @cuda.extending.intrinsic
    def _launch_dependents(typing_context):
        return types.void(), _where_it_exists("griddepcontrol.launch_dependents;")

    @cuda.extending.intrinsic
    def _wait(typing_context):
        return types.void(), _where_it_exists("griddepcontrol.wait;")

    @cuda.extending.overload(let_next_begin)
    def _overload_next():
        return lambda: _launch_dependents()

    @cuda.extending.overload(await_launch)
    def _overload_await():
        return lambda: _wait()
