"""Declares the exceptions of the suites; each tells the user what to change in an operator or in a command."""


class OperatorError(ValueError, TypeError):
    """An operator or a backend declares a value that makes no sense, or one of its functions returns one."""


class SelectionError(ValueError):
    """A selection names something that does not exist, or selects nothing that can run."""


class CatalogueError(SelectionError):
    """A file or module holds no operators, or none that can be tested."""


class RevisionError(SelectionError):
    """A revision does not exist, or cannot be made ready to run; or a name fits no run and no revision."""
