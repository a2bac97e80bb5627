"""Calls of single entries of a target, for tests of the FFI that need no kernel language."""

import itertools
from dataclasses import dataclass

from bridge.ffi.built import Built
from bridge.ffi.kernel_call import ATTACH_A_RULE
from bridge.ffi.table_entry import Entry
from bridge.ffi.target import Target

_numbers = itertools.count()


@dataclass(frozen=True)
class EntryCode:
    """The :class:`bridge.ffi.kernel_call.Code` of an entry that is built already."""

    target: Target
    compiled: Entry

    scratch = ()
    derivative_advice = ATTACH_A_RULE

    @property
    def platforms(self):
        return (self.target.platform,)

    def describe(self, platform):
        return self.target, self.compiled.description

    def in_place_pairs(self, platform):
        return frozenset()

    def entry(self, platform):
        return self.compiled


def code_of(target, plan, alive=None):
    """A new entry of a target that executes a plan."""
    return EntryCode(target, target.publish(f"test:{next(_numbers)}", lambda: Built(plan, alive)))
