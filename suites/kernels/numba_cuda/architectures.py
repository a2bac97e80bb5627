"""Lets code of Numba-CUDA kernels depend on the GPU that it is compiled for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

_BYTE = ir.IntType(8)
_NAME = bytearray(b"__CUDA_ARCH\0")


def is_at_least(builder: Any, capability: int) -> Any:
    """A condition that the compiler knows: whether the GPU has this compute capability, such as 90, or a later one.

    It replaces ``__nvvm_reflect`` by a number, and drops code that is then not reached (LLVM, "User Guide for NVPTX",
    "Reflection Parameters").
    """
    module = builder.module
    name = ir.GlobalVariable(module, ir.ArrayType(_BYTE, len(_NAME)), module.get_unique_name("architecture"), 4)
    name.initializer, name.linkage, name.global_constant = ir.Constant(name.value_type, _NAME), "internal", True
    kind = ir.FunctionType(ir.IntType(32), [_BYTE.as_pointer()])
    reflect = module.globals.get("__nvvm_reflect") or ir.Function(module, kind, "__nvvm_reflect")
    address = builder.addrspacecast(name, name.value_type.as_pointer())
    architecture = builder.call(reflect, [builder.bitcast(address, _BYTE.as_pointer())])
    return builder.icmp_unsigned(">=", architecture, ir.Constant(architecture.type, 10 * capability))
