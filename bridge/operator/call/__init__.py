"""Describes a call of an operator, and checks it against the functions of the operator's author."""
