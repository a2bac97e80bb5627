"""brainevent's ``XLACustomKernel`` over the bridge's: ``from bridge.adapters.brainevent import XLACustomKernel``.

Kernels, defaults and backends are the bridge's. Rules have JAX's own signatures, so each operator is a primitive of its
own, and JAX's tables hold its rules. New operators have less to write with :class:`bridge.XLACustomKernel`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bridge.errors import SignatureError
from bridge.operator.operator_call import Generator, Rule
from bridge.operator.xla_custom_kernel import XLACustomKernel as _Operator

OPERATORS: dict[str, BraineventOperator] = {}
"""The operators of this process, by name. The latest one of a name counts."""


def operators(*tags: str) -> dict[str, BraineventOperator]:
    """The operators that have all of these tags, by name."""
    return {name: each for name, each in OPERATORS.items() if each.tags.issuperset(tags)}


class BraineventOperator(_Operator):
    """An operator with brainevent's methods, see :class:`bridge.XLACustomKernel` for the others.

    Args:
        name: Names the operator and its primitive.
        doc: Its documentation.
    """

    def __init__(self, name: str, doc: str | None = None):
        super().__init__(name)
        self.__doc__ = doc
        self.primitive, self.tags = Primitive(name), frozenset[str]()
        self._call: Callable[..., Any] | None = None
        self.primitive.multiple_results = True
        self.primitive.def_impl(self._run)
        self.primitive.def_abstract_eval(lambda *args, outs, **parameters: outs)
        mlir.register_lowering(self.primitive, mlir.lower_fun(self._run, multiple_results=True))
        self.register_general_batching()
        OPERATORS[name] = self

    def _run(self, *args: Any, outs: Sequence[Any], **parameters: Any) -> Any:
        return super().__call__(*args, outs=[jax.ShapeDtypeStruct(o.shape, o.dtype) for o in outs], **parameters)

    def __call__(self, *args: Any, outs: Any, **parameters: Any) -> Any:  # type: ignore[override]
        """Runs the operator; ``backend`` is one of the parameters, which rules get too."""
        self._static(parameters)
        leaves, tree = jax.tree.flatten(outs)
        types = tuple(jax.core.ShapedArray(each.shape, each.dtype) for each in leaves)
        return jax.tree.unflatten(tree, self.primitive.bind(*args, outs=types, **parameters))

    def def_kernel(self, backend: str, platform: str, kg: Generator, asdefault: bool = False) -> None:  # type: ignore[override]
        """Registers a kernel; ``platform`` is ``"cpu"``, ``"gpu"`` or ``"tpu"``."""
        super().def_kernel(backend, platform, kg, asdefault)

    def def_pallas_kernel(self, platform: str, kg: Generator, asdefault: bool = False) -> None:  # type: ignore[override]
        """Registers a Pallas kernel for one platform."""
        self.def_kernel("pallas", platform, kg, asdefault)

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform, by brainevent's names."""
        return {"gpu" if name == "cuda" else name: backend for name, backend in super().defaults.items()}

    def get_default(self, platform: str) -> str | None:
        """The default backend of a platform, if it has one."""
        return self.defaults.get("gpu" if platform == "cuda" else platform)

    def available_backends(self, platform: str) -> list[str]:  # type: ignore[override]
        """The backends of a platform."""
        return list(super().available_backends(platform))

    def def_batching_rule(self, rule: Rule) -> None:
        """Declares ``rule(args, axes, **parameters)``, which returns the results and the axis of the batch in each."""
        batching.primitive_batchers[self.primitive] = rule

    def register_general_batching(self) -> None:
        """Runs the elements of a batch one after another."""

        def rule(args: Sequence[Any], axes: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
            def one(batched: list[Any]) -> Any:
                rest = iter(batched)
                own = [arg if axis is None else next(rest) for arg, axis in zip(args, axes, strict=True)]
                return self.primitive.bind(*own, **parameters)

            moved = [jax.numpy.moveaxis(a, axis, 0) for a, axis in zip(args, axes, strict=True) if axis is not None]
            return jax.lax.map(one, moved), [0] * len(parameters["outs"])

        self.def_batching_rule(rule)

    def def_jvp_rule(self, rule: Rule) -> None:
        """Declares ``rule(primals, tangents, **parameters)``, as for ``jax.interpreters.ad.primitive_jvps``."""
        ad.primitive_jvps[self.primitive] = rule

    def def_jvp_rule2(self, *rules: Rule | None) -> None:
        """Declares ``rule(tangent, *primals, **parameters)`` for each argument; None where the derivative is zero."""

        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
            if len(rules) != len(primals):
                raise SignatureError(f"{self.name}: def_jvp_rule2 got {len(rules)} rules for {len(primals)} arguments.")
            results = self.primitive.bind(*primals, **parameters)
            pairs = zip(rules, tangents, strict=True)
            moving = [(rule, tangent) for rule, tangent in pairs if rule and not isinstance(tangent, ad.Zero)]
            terms = [[ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]]
            terms += [list(rule(tangent, *primals, **parameters)) for rule, tangent in moving]
            return results, [functools.reduce(ad.add_tangents, each) for each in zip(*terms, strict=True)]

        self.def_jvp_rule(jvp)

    def def_transpose_rule(self, rule: Rule) -> None:
        """Declares ``rule(cotangents, *args, **parameters)``, as for ``jax.interpreters.ad.primitive_transposes``."""
        ad.primitive_transposes[self.primitive] = rule

    def def_call(self, function: Callable[..., Any]) -> None:
        """Declares the function that users call, which :meth:`call` runs."""
        self._call = function

    def call(self, *args: Any, **keywords: Any) -> Any:
        """Runs the function of :meth:`def_call`."""
        if self._call is None:
            raise ValueError(f"{self.name} has no function to call. Declare it with def_call.")
        return self._call(*args, **keywords)

    def def_tags(self, *tags: str) -> None:
        """Declares by what :func:`operators` finds it."""
        self.tags = frozenset(tags)

    def def_benchmark_data(self, function: Callable[..., Any]) -> None:
        """Takes what brainevent measures with, and ignores it: ``tune`` takes the arguments of a call."""


XLACustomKernel = BraineventOperator
"""brainevent's name of it."""
