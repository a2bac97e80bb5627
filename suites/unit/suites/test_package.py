"""A file with operators imports all that it needs from the package itself, which costs nothing to import."""

import importlib

import pytest

import suites


def test_exports_are_there_once_each():
    assert len(set(suites.__all__)) == len(suites.__all__)
    assert set(suites._HOMES) == set(suites.__all__) <= set(dir(suites))
    for name, module in suites._HOMES.items():
        assert getattr(suites, name) is getattr(importlib.import_module(module), name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'suites' has no attribute 'Operater'"):
        _ = suites.Operater
