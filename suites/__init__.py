"""Exports everything that a user's file of operators needs: ``from suites import Operator``.

A name is imported when it is first used, so that ``import suites`` costs nothing. The building blocks of kernels are in
the file of their backend, such as :mod:`suites.backends.numba_cuda`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.backends import Backend, register_backend
    from suites.backends.cuda_raw import RawKernel
    from suites.backends.custom_kernel import CustomKernel
    from suites.backends.cutile import CutileKernel
    from suites.backends.numba_cpu import NumbaKernel
    from suites.backends.numba_cuda import CudaCallable, CudaKernel
    from suites.backends.pallas import PallasKernel
    from suites.backends.triton import TritonCallable, TritonKernel
    from suites.backends.warp import WarpCallable, WarpKernel
    from suites.declare.aspects import Gathers, Gradient, Sizes
    from suites.declare.custom_operators import operator_of
    from suites.declare.domain import Domain
    from suites.declare.error_case import ErrorCase, Failure, value_errors
    from suites.declare.operator import Operator
    from suites.errors import CatalogueError, OperatorError
    from suites.kernels.function_kernel import FunctionKernel
    from suites.kernels.jax_kernels import JaxKernel
    from suites.kernels.kernel import Kernel
    from suites.numerics.arrays import total_bytes
    from suites.numerics.derived import derived_truth
    from suites.numerics.edges import values, vectors
    from suites.numerics.error_model import Expected, Truth, exact
    from suites.numerics.sparse import EDGE_ROWS, csr, csr_sample, special_csr
    from suites.vendors.calls import VendorCall

_MODULES = {
    "backends": ("Backend", "register_backend"),
    "backends.cuda_raw": ("RawKernel",),
    "backends.custom_kernel": ("CustomKernel",),
    "backends.cutile": ("CutileKernel",),
    "kernels.jax_kernels": ("JaxKernel",),
    "kernels.function_kernel": ("FunctionKernel",),
    "kernels.kernel": ("Kernel",),
    "backends.numba_cpu": ("NumbaKernel",),
    "backends.numba_cuda": ("CudaCallable", "CudaKernel"),
    "backends.pallas": ("PallasKernel",),
    "backends.triton": ("TritonCallable", "TritonKernel"),
    "vendors.calls": ("VendorCall",),
    "backends.warp": ("WarpCallable", "WarpKernel"),
    "declare.domain": ("Domain",),
    "declare.custom_operators": ("operator_of",),
    "declare.error_case": ("ErrorCase", "Failure", "value_errors"),
    "declare.operator": ("Operator",),
    "declare.aspects": ("Gathers", "Gradient", "Sizes"),
    "numerics.arrays": ("total_bytes",),
    "errors": ("CatalogueError", "OperatorError"),
    "numerics.edges": ("values", "vectors"),
    "numerics.sparse": ("EDGE_ROWS", "csr", "csr_sample", "special_csr"),
    "numerics.derived": ("derived_truth",),
    "numerics.error_model": ("Expected", "Truth", "exact"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "EDGE_ROWS",
    "Backend",
    "CatalogueError",
    "CudaCallable",
    "CudaKernel",
    "CustomKernel",
    "CutileKernel",
    "Domain",
    "ErrorCase",
    "Expected",
    "Failure",
    "FunctionKernel",
    "Gathers",
    "Gradient",
    "JaxKernel",
    "Kernel",
    "NumbaKernel",
    "Operator",
    "OperatorError",
    "PallasKernel",
    "RawKernel",
    "Sizes",
    "TritonCallable",
    "TritonKernel",
    "Truth",
    "VendorCall",
    "WarpCallable",
    "WarpKernel",
    "csr",
    "csr_sample",
    "derived_truth",
    "exact",
    "operator_of",
    "register_backend",
    "special_csr",
    "total_bytes",
    "value_errors",
    "values",
    "vectors",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
