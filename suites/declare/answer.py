"""Wraps the functions of an operator: brings their results into one form, and refuses results of other forms.

An error names the operator and the field. It is raised when the function is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.declare import fields

Given = Callable[..., Any]


class Answer:
    """A field of an operator that is a function.

    ``dataclasses.replace`` hands the answers of an operator to its copy. The copy takes over only the author's
    functions: its defaults follow from its own fields.

    Attributes:
        field: The name of the field.
        takes: The arguments of the function, for an error.
        operator: The operator.
        given: The author's function; None for the default.
    """

    field = ""
    takes = "the inputs"

    def __init__(self, operator: Any, given: Given | None):
        self.operator = operator
        given = given.given if isinstance(given, Answer) else given
        self.given = None if given is None else fields.function(self.where, given, self.takes)

    @property
    def where(self) -> str:
        """The operator and the field, with which an error begins."""
        return f"{self.operator.name}: {self.field}"

    def __repr__(self) -> str:
        return f"<{self.field} of {self.operator.name}>"
