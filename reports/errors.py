"""Defines the exceptions of `reports`."""


class ReportError(Exception):
    """Base of every error that `reports` raises."""


class RecordError(ReportError, ValueError):
    """A record, or a part of one, contradicts itself or cannot be written as JSON."""


class DamagedLine(ReportError, ValueError):
    """A line is not JSON, because its writer died in the middle of it."""


class NewerSchema(ReportError, ValueError):
    """A record was written by a later version, which this one cannot read."""


class RunNotFound(ReportError, LookupError):
    """A name fits no run file, or more than one."""


class RunUnreadable(ReportError, ValueError):
    """A run file cannot be read, or cannot be continued by this writer."""


class RunUnwritable(ReportError, OSError):
    """A run file cannot be written."""


class PolicyError(ReportError, ValueError):
    """The policy of the gate in a `pyproject.toml` has an unknown key, or an invalid value."""


class LibraryMissing(ReportError, ImportError):
    """A page or a picture needs a library that is not installed."""
