"""Lists the ways in which a cell can end."""

from enum import StrEnum


class Status(StrEnum):
    """How a cell ended."""

    PASSED = "PASSED"
    WRONG_VALUE = "WRONG_VALUE"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    INPUT_MUTATED = "INPUT_MUTATED"
    UNWRITTEN_OUTPUT = "UNWRITTEN_OUTPUT"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    SKIPPED = "SKIPPED"

    @property
    def failed(self) -> bool:
        """Whether the cell should have passed and did not. A skipped cell is unsupported, not broken."""
        return self not in (Status.PASSED, Status.SKIPPED)
