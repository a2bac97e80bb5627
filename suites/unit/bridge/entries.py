"""Calls of single plans of a target, for tests of the FFI that need no kernel language."""

import itertools
from dataclasses import dataclass

import jax

from bridge.ffi.kernel_call import Call
from bridge.ffi.native.addresses import Arrays
from bridge.ffi.target import Target

_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class PlanCall(Call):
    """A call of a plan that is published already."""

    target: Target
    description: str
    address: int

    @property
    def platforms(self):
        return (self.target.platform,)

    def describe(self, platform):
        return self.target, self.description

    def entry(self, platform):
        return self.address


def call_of(target, plan, inputs, outputs, name="kernel", **options):
    """A call of a new plan that a target executes, on arrays of these shapes and dtypes."""
    description = f"test:{next(_numbers)}"
    arrays = Arrays(name, *([(len(shape), dtype.itemsize) for shape, dtype in each] for each in (inputs, outputs)))
    address = target.publish(description, lambda: (plan.keep(arrays), plan.alive))
    return PlanCall(name, outputs, target=target, description=description, address=address, **options)


def calls_in(wrapper, *args):
    """The calls that a function of wrappers makes."""

    def calls_of(equations):
        for each in equations:
            if "call" in each.params:
                yield each.params["call"]
            for inner in ("jaxpr", "call_jaxpr"):
                if inner in each.params:
                    yield from calls_of(each.params[inner].eqns)

    return list(calls_of(jax.make_jaxpr(wrapper)(*args).eqns))


def call_in(wrapper, *args):
    """The call that a wrapper makes."""
    (call,) = calls_in(wrapper, *args)
    return call
