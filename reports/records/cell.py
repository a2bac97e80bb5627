"""Defines `Cell`: one combination of operator, backend, mode, platform, dtype, size and parameters."""

import functools
import json

import msgspec

from reports.records.header import Platform
from reports.records.part import Part, Whole, number

Parameter = str | Whole | float | bool | None
CellKey = tuple[str | int, ...]

_DTYPE_STEMS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


class Cell(Part, frozen=True, kw_only=True, dict=True):
    """One combination of operator, backend, mode, platform, dtype, size and parameters: the subject of a record.

    Attributes:
        operator: Name of the operator.
        operator_version: Raised whenever the meaning of the operator changes.
        backend: Name of the backend; `jnp` is XLA itself.
        mode: The transformation or direction: `forward`, `vjp`, `vmap`.
        platform: `cpu` or `cuda`.
        dtype: Full name, such as `float32`.
        size: The operator's nominal number of elements.
        params: Other facts that tell cells apart. Two records of one cell in a run are two attempts at it. So two
            measurements of one kernel, such as with cold and hot caches, need different parameters.
    """

    operator: str
    operator_version: Whole
    backend: str
    mode: str = "forward"
    platform: Platform
    dtype: str
    size: Whole
    params: dict[str, Parameter] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.params:
            msgspec.structs.force_setattr(self, "params", {name: number(value) for name, value in self.params.items()})

    @property
    def id(self) -> str:
        """The cell as text, such as `lif_step-numba-f32-4096-cpu`; without the parameters."""
        parts = [self.operator, self.backend, short_dtype(self.dtype), str(self.size), self.platform]
        if self.mode != "forward":
            parts.append(self.mode)
        return "-".join(parts)

    def __str__(self) -> str:
        return self.id

    @functools.cached_property
    def key(self) -> CellKey:
        """Hashable identity: equal for equal cells, in any order of `params`."""
        return (
            self.operator,
            self.operator_version,
            self.backend,
            self.mode,
            self.platform,
            short_dtype(self.dtype),
            self.size,
            self.params_text,
        )

    @property
    def versionless_key(self) -> CellKey:
        """The key without the version of the operator: under it, cells of two revisions meet."""
        return self.key[:1] + self.key[2:]

    @property
    def group_key(self) -> CellKey:
        """The key without the backend: backends that do the same work share it."""
        return self.key[:2] + self.key[3:]

    @property
    def params_text(self) -> str:
        """The parameters as JSON text, sorted by name. JSON keeps 1, 1.0 and true apart; a dict does not."""
        return json.dumps(self.params, sort_keys=True) if self.params else "{}"


@functools.lru_cache(maxsize=1024)
def short_dtype(dtype: str) -> str:
    """Returns `f32` for `float32`, `bf16` for `bfloat16`; a name without a short form stays as it is."""
    stem = dtype.rstrip("0123456789")
    return _DTYPE_STEMS[stem] + dtype[len(stem) :] if stem in _DTYPE_STEMS and stem != dtype else dtype
