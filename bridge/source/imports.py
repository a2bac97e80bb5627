"""Moves the imports in the body of a kernel to its globals, because kernel compilers reject import statements."""

from __future__ import annotations

import ast
import copy
import dis
import types
from typing import Any

from bridge.errors import KernelCompileError
from bridge.source.compiled_from import compiled_from


def hoist_imports(function: types.FunctionType) -> types.FunctionType:
    """The function with the import statements of its body executed now instead of when it runs.

    Args:
        function: A kernel as the user wrote it.

    Returns:
        ``function`` itself if its body imports nothing; otherwise an equivalent function whose imported names are
        globals. Line numbers are kept, so that compile errors still point at the user's source.

    Raises:
        KernelCompileError: The body imports, and its source is not available, or is not what the function was made
            from.
    """
    if not any(instruction.opname == "IMPORT_NAME" for instruction in dis.get_instructions(function)):
        return function
    definition = compiled_from(function.__code__)
    if definition is None:
        raise KernelCompileError(
            f"{function.__name__} imports inside its body, which kernel compilers reject, and its source is not "
            "available to be rewritten, or has changed since it was imported. Move the import to the top of the module."
        )
    remover = _ImportRemover()
    body = remover.visit(copy.deepcopy(definition))
    body.decorator_list = []
    names = {"__name__": function.__globals__.get("__name__"), "__package__": function.__globals__.get("__package__")}
    exec(compile(ast.Module(remover.imports, type_ignores=[]), function.__code__.co_filename, "exec"), names)
    namespace = {**function.__globals__, **names}
    return _rebuild(function, body, namespace)


class _ImportRemover(ast.NodeTransformer):
    def __init__(self) -> None:
        self.imports: list[ast.stmt] = []

    def _take(self, node: ast.stmt) -> ast.stmt:
        self.imports.append(node)
        return ast.copy_location(ast.Pass(), node)

    # The names that ast.NodeTransformer looks for.
    visit_Import = visit_ImportFrom = _take  # noqa: N815


def _rebuild(function: types.FunctionType, body: Any, namespace: dict[str, Any]) -> types.FunctionType:
    code = function.__code__
    if code.co_freevars:
        # Free variables stay free only inside a function that binds them.
        binder = ast.parse(f"def bind({', '.join(code.co_freevars)}): pass")
        function_def: Any = binder.body[0]
        function_def.name, function_def.body = "<bind>", [body]  # no kernel has this name
        tree = binder
    else:
        tree = ast.Module([body], type_ignores=[])
    compiled = _find_code(compile(ast.fix_missing_locations(tree), code.co_filename, "exec"), code.co_name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in compiled.co_freevars)
    rebuilt = types.FunctionType(compiled, namespace, function.__name__, function.__defaults__, closure)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    rebuilt.__qualname__, rebuilt.__module__ = function.__qualname__, function.__module__
    return rebuilt


def _find_code(module: types.CodeType, name: str) -> types.CodeType:
    pending = [module]
    while pending:
        code = pending.pop()
        if code.co_name == name:
            return code
        pending.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    raise KernelCompileError(f"{name} imports inside its body and could not be rewritten. Move the import to the top.")
