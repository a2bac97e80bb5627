"""Declares the exceptions that tell the author of an operator what to change."""


class OperatorError(ValueError, TypeError):
    """An operator declares something that makes no sense, or one of its functions returns that."""


class CatalogueError(ValueError):
    """A file or module from which no operators can be taken, or none that can be tested."""
