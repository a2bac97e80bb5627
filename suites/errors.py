"""Declares the exceptions that tell the user what to change in an operator or in a command."""


class OperatorError(ValueError, TypeError):
    """An operator declares something that makes no sense, or one of its functions returns that."""


class SelectionError(ValueError):
    """A selection names something that does not exist, or selects nothing that can run."""


class CatalogueError(SelectionError):
    """A file or module from which no operators can be taken, or none that can be tested."""
