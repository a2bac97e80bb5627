"""Makes every mutant of the built-in operators, and builds the operator of a mutant.

A mutant is a module with one fault. To build its operator, the module is executed anew, together with the modules of
operators that may refer to it. They take the place of the right modules only for as long as this takes. Reference,
truth and inputs come from the right operator, and only the kernel from the faulty module.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from suites import ops
from suites.backends.backend import Backend
from suites.backends.cuda_raw import RawKernel
from suites.declare.operator import Operator
from suites.mutation.cpp_faults import cpp_faults
from suites.mutation.fault import Fault
from suites.mutation.kernel_functions import Place, kernel_functions, source_of
from suites.mutation.python_faults import python_faults

_OPERATORS = "suites.ops."
HELPERS = (
    "suites.backends.numba_cpu_lanes",
    "suites.backends.numba_cpu_math",
    "suites.backends.numba_cpu_blocks",
    "suites.backends.numba_cuda_architectures",
    "suites.backends.numba_cuda_blocks",
    "suites.backends.numba_cuda_launches",
    "suites.backends.numba_cuda_look_back",
    "suites.backends.numba_cuda_reductions",
    "suites.backends.numba_cuda_shared",
    "suites.backends.numba_cuda_sparse_blocks",
    "suites.backends.numba_cuda_tables",
    "suites.backends.numba_cuda_unrolled",
    "suites.backends.numba_cuda_vectors",
    "suites.backends.numba_cuda_warps",
    "suites.backends.warp_blocks",
    "suites.backends.warp_rows",
    "suites.backends.warp_scans",
    "suites.backends.warp_streams",
    "suites.backends.warp_thresholds",
    "suites.backends.warp_vectors",
)
"""The modules of functions that several operators' kernels call."""

_ROOT = Path(__file__).parents[2]
_MOST_TARGETS = 4


@dataclass(frozen=True)
class SourceMutant:
    """One fault in the source of kernels.

    Attributes:
        module: Name of the module with the fault.
        fault: The fault.
        targets: The kernels that the fault may reach: names of operators and ids of backends, the nearest first. The
            checks run on one after the other until one catches it.
        language: The language of the kernels.
        in_text: Whether the fault is in the text of a kernel in C++, and not in the Python source of the module.
    """

    module: str
    fault: Fault
    targets: tuple[tuple[str, str], ...]
    language: str
    in_text: bool = False

    @property
    def name(self) -> str:
        """Names the mutant in records: ``cumsum:57:bound:2114-2115:range(1, blocks)``, the same in every run."""
        fault = self.fault
        where = f"{self.module.rpartition('.')[2]}:{self.targets[0][1] if self.in_text else 'py'}"
        return f"{where}:{fault.line}:{fault.kind}:{fault.start}-{fault.end}:{fault.after}"

    @property
    def file(self) -> str:
        """The path of the module, from the root of the project."""
        path = Path(str(sys.modules[self.module].__file__))
        return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else str(path)

    @property
    def source(self) -> str:
        """The text that the fault is put into."""
        return self._kernel_text() if self.in_text else source_of(self.module)

    def _kernel_text(self) -> str:
        operator, backend = self.targets[0]
        kernel = ops.operators()[operator].kernel(_backend(backend))
        assert isinstance(kernel, RawKernel)
        return kernel.source


def mutants(device: str, backends: tuple[str, ...] = (), operators: tuple[str, ...] = ()) -> list[SourceMutant]:
    """Returns every mutant of the kernels that run on a device, in the order of files and lines.

    A function that several backends share counts for the first of them.

    Args:
        device: ``cpu`` or ``cuda``.
        backends: Ids of the only backends that count; all by default.
        operators: Names of the only operators that count; all by default.
    """
    found: list[SourceMutant] = []
    reached: dict[Place, list[tuple[str, str]]] = {}
    modules = frozenset({*HELPERS, *(home_of(name) for name in ops.operators())})
    for backend in Backend:
        if device not in backend.platforms or not backend.compiled or (backends and backend.id not in backends):
            continue
        for name, operator in ops.operators().items():
            if backend not in operator.kernels or (operators and name not in operators):
                continue
            kernel = operator.kernel(backend)
            if isinstance(kernel, RawKernel):
                found += _in_text(name, backend, kernel)
            for place in kernel_functions(kernel, modules):
                reached.setdefault(place, []).append((name, backend.id))
    lines: dict[tuple[str, tuple[tuple[str, str], ...]], set[int]] = {}
    for place, targets in reached.items():
        lines.setdefault((place.module, _nearest(place, targets)), set()).add(place.line)
    for (module, nearest), first_lines in lines.items():
        language = _language(nearest[0][1])
        found += [
            SourceMutant(module, fault, nearest, language) for fault in python_faults(source_of(module), first_lines)
        ]
    if device == "cpu":  # Warp runs the threads of a kernel one after the other there, and Numba-CUDA does not run
        found = [mutant for mutant in found if mutant.fault.kind not in ("atomic", "sync")]
    unique = {(mutant.module, mutant.in_text and mutant.targets, mutant.fault): mutant for mutant in found}
    return sorted(unique.values(), key=lambda mutant: (mutant.module, mutant.in_text, mutant.fault.start, mutant.name))


def home_of(operator: str) -> str:
    """Returns the name of the module that declares a built-in operator."""
    return _homes()[operator]


def built(mutant: SourceMutant, target: tuple[str, str], folder: Path) -> Operator:
    """Returns the operator of a target with the faulty kernel as its only kernel.

    Args:
        mutant: The mutant.
        target: One of its targets.
        folder: Where the faulty module is written. Warp and tracebacks read its source there.

    Raises:
        Exception: Whatever the faulty module raises as it is executed.
    """
    name, backend_id = target
    right, backend = ops.operators()[name], _backend(backend_id)
    if mutant.in_text:
        kernel: Any = right.kernel(backend)
        kernel = replace(kernel, source=mutant.fault.applied(kernel.source))
    else:
        path = folder / f"{mutant.module.rpartition('.')[2]}.py"
        path.write_text(mutant.fault.applied(source_of(mutant.module)), encoding="utf-8")
        home = home_of(name)
        with _in_place_of(mutant.module, path):
            kernel = importlib.import_module(home).OPERATOR.kernel(backend)
    return only(right, backend, kernel)


def only(operator: Operator, backend: Backend, kernel: Any = None) -> Operator:
    """Returns an operator with one kernel alone: its own by default."""
    kernel = operator.kernel(backend) if kernel is None else kernel
    errors = [case for case in operator.errors if backend in case.failures]
    return replace(operator, kernels={backend: kernel}, tested=(backend,), errors=errors)


def _in_text(name: str, backend: Backend, kernel: RawKernel) -> list[SourceMutant]:
    targets = ((name, backend.id),)
    return [SourceMutant(home_of(name), fault, targets, backend.id, True) for fault in cpp_faults(kernel.source)]


def _nearest(place: Place, targets: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns a few of the kernels that reach a function: kernels of the same file first, a few of one language."""
    language = _language(targets[0][1])
    own = [target for target in targets if _language(target[1]) == language]
    return tuple(sorted(own, key=lambda target: home_of(target[0]) != place.module)[:_MOST_TARGETS])


def _language(backend: str) -> str:
    found = _backend(backend)
    return found.language or found.id


def _backend(name: str) -> Backend:
    return next(backend for backend in Backend if backend.id == name)


@functools.cache
def _homes() -> Mapping[str, str]:
    ops.operators()
    modules = {name: module for name, module in sys.modules.items() if name.startswith(_OPERATORS)}
    return {module.OPERATOR.name: name for name, module in modules.items() if hasattr(module, "OPERATOR")}


@contextlib.contextmanager
def _in_place_of(name: str, path: Path) -> Iterator[None]:
    """Puts a faulty module in the place of the right one, and has the modules that use it imported anew."""
    modules = sys.modules
    helpers = [] if name.startswith(_OPERATORS) else [name, *_importers(name)]
    held = {each: module for each, module in modules.items() if each.startswith(_OPERATORS) or each in (name, *helpers)}
    attributes: list[tuple[ModuleType, str, Any]] = []
    for each, module in held.items():
        parent, _, child = each.rpartition(".")
        attributes.append((modules[parent], child, module))
    finder = _Finder(name, path)
    sys.meta_path.insert(0, finder)
    try:
        for each in held:
            del modules[each]
        for each in helpers:
            attributes += _replaced(held[each], importlib.import_module(each))
        yield
    finally:
        sys.meta_path.remove(finder)
        for each in [each for each in modules if each.startswith(_OPERATORS)]:
            del modules[each]
        modules.update(held)
        for module, attribute, value in attributes:
            setattr(module, attribute, value)


def _importers(name: str) -> list[str]:
    """The files of helpers that import from one, directly or not. What they have compiled has its right code."""
    found = {name}
    for _ in HELPERS:
        for each in HELPERS:
            module = sys.modules.get(each)
            used = {getattr(value, "__module__", None) for value in vars(module).values()} if module else set()
            if used & found:
                found.add(each)
    return [each for each in HELPERS if each in found and each != name]


def _replaced(right: ModuleType, faulty: ModuleType) -> list[tuple[ModuleType, str, Any]]:
    """Gives the backends the functions of a faulty module of helpers. Returns what they had before."""
    before: list[tuple[ModuleType, str, Any]] = []
    for backend in [module for name, module in sys.modules.items() if name.startswith("suites.backends.")]:
        for attribute, value in list(vars(backend).items()):
            is_own = not attribute.startswith("__") and backend is not faulty and hasattr(value, "__module__")
            if is_own and vars(right).get(attribute) is value and attribute in vars(faulty):
                before.append((backend, attribute, value))
                setattr(backend, attribute, vars(faulty)[attribute])
    return before


class _Finder:
    """Finds one module at another path, as a finder of ``sys.meta_path``."""

    def __init__(self, name: str, path: Path):
        self._name, self._path = name, path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec of the faulty module; None for every other module."""
        return importlib.util.spec_from_file_location(name, self._path) if name == self._name else None
