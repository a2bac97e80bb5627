"""Lists the ways in which a cell can end."""

from enum import StrEnum


class Status(StrEnum):
    """How a cell ended."""

    PASSED = "PASSED"
    WRONG_VALUE = "WRONG_VALUE"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    INPUT_MUTATED = "INPUT_MUTATED"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    UNWRITTEN_OUTPUT = "UNWRITTEN_OUTPUT"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    UNCHECKED = "UNCHECKED"
    SKIPPED = "SKIPPED"

    @property
    def failed(self) -> bool:
        """Whether the cell should have passed and did not. A skipped cell is unsupported, not broken."""
        return self not in (Status.PASSED, Status.SKIPPED)

    @property
    def wrong(self) -> bool:
        """Whether the cell shows a fault of the kernel.

        A cell that is ``UNCHECKED`` has not passed, but the kernel is not to blame: no error bound could be derived,
        for example, or the result could not be judged. The same holds for a cell with too little memory (``OOM``).
        """
        return self.failed and self not in (Status.UNCHECKED, Status.OOM)
