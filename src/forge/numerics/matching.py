"""Which values of two models are the same layer.

1. By name. Importers keep names of values, so that a model has them through every format. A real number that is only quantized,
   and read as the real number that this stands for, is matched as the latter; so are quantized integers. The suffixes that
   quantizers put on names do not count. Values of one name and different rank or sizes are not matched.
2. Where quantization has merged a clamp (``relu``, ``clip``) into the layer before it, that layer is matched with the clamp.
3. By structure, where no name matches but those of outputs: if two models have equally many results of one operator and one
   shape, these are matched in their order.

What is constant, not real, or moves elements only is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ir.types import TensorType
from forge.numerics.segments import depending_on
from forge.numerics.sides import Side
from forge.numerics.tolerances import is_inexact

SUFFIXES = ("_DequantizeLinear_Output", "_QuantizeLinear_Output", "_QuantizeLinear_Input", "_dequantized", "_quantized")
"""Of the names that quantizers give to what stands for a value, in its place."""


@dataclass(frozen=True)
class Probe:
    """A value of a side, and how it becomes real numbers.

    Attributes:
        scale, zero_point: of quantized numbers; None: the value is real.
    """

    value: Value
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    is_quantized: bool = False

    def real(self, array: Any) -> Any:
        if self.scale is None or self.zero_point is None:
            return array
        return (np.asarray(array, np.float64) - self.zero_point.astype(np.float64)) * self.scale.astype(np.float64)


@dataclass(frozen=True)
class ValuePair:
    """Two values that are the same layer: the name and the operator are those of the first side."""

    name: str
    operator: str
    first: Probe
    second: Probe


def match(a: Side, b: Side) -> list[ValuePair]:
    """Returns pairs in the order of ``a``, but for the outputs, which are compared in any case."""
    first, second = _Values(a), _Values(b)
    return _by_name(first, second) or _by_structure(first, second)


class _Values:
    """Values of a side that can be compared: by name, without suffixes, and all in their order."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.graph = side.graph
        self.computed = depending_on(self.graph, side.inputs)
        self.probes: dict[str, Probe] = {}
        for node in self.graph.nodes:
            for value in node.results:
                probe = self._probe(value)
                if probe is not None and value.name:
                    self.probes.setdefault(_base(value.name), probe)
        self.layers = [v for n in self.graph.nodes for v in n.results if self._is_layer(v)]

    def _probe(self, value: Value) -> Probe | None:
        if value not in self.computed or not isinstance(value.type, TensorType):
            return None
        read = _dequantized(value)
        if read is not None and self._is_known(read):
            return Probe(read, is_quantized=True)
        stored = _stored(value)
        if stored is not None and stored.name in self.side.scales and self._is_known(stored):
            return Probe(stored, *self.side.scales[stored.name], is_quantized=True)
        return Probe(value) if is_inexact(value) and self._is_known(value) else None

    def _is_known(self, value: Value) -> bool:
        return self.side.named is None or value.name in self.side.named

    def _is_layer(self, value: Value) -> bool:
        made = value.producer
        if made is None or made.op_def.is_view or made.op_def.category in (Category.MOVEMENT, Category.QUANTIZATION):
            return False
        return value in self.computed and is_inexact(value) and self._is_known(value) and value not in self.graph.outputs


def _by_name(a: _Values, b: _Values) -> list[ValuePair]:
    pairs: list[ValuePair] = []
    outputs = {_base(v.name) for v in a.graph.outputs}
    for name, first in a.probes.items():
        made = first.value.producer
        second = b.probes.get(name)
        if second is None or made is None or made.op_def.is_view or made.op_def.category is Category.MOVEMENT:
            continue
        clamp = _merged_clamp(a, first, second)
        if clamp is not None and clamp.name in b.probes:
            continue
        first, name = (first, name) if clamp is None else (Probe(clamp), clamp.name)
        if name not in outputs and _shape(first.value) == _shape(second.value):
            pairs.append(ValuePair(name, _operator(first.value), first, second))
    return pairs


def _merged_clamp(a: _Values, first: Probe, second: Probe) -> Value | None:
    """The clamp after ``first``, which alone reads it, if ``second`` is quantized: saturation then has computed it as well."""
    users = {user for user, _ in first.value.uses}
    if first.is_quantized or not second.is_quantized or len(users) != 1 or first.value in a.graph.outputs:
        return None
    clamp = users.pop()
    if not clamp.op_def.is_clamp or not clamp.result.name:
        return None
    return clamp.result if a._is_known(clamp.result) else None


def _by_structure(a: _Values, b: _Values) -> list[ValuePair]:
    groups = [_grouped(values.layers) for values in (a, b)]
    partner: dict[Value, Value] = {}
    for key, first in groups[0].items():
        second = groups[1].get(key, [])
        if len(first) == len(second):
            partner.update(zip(first, second))
    numbers: dict[str, int] = {}
    pairs = []
    for value in a.layers:
        if value in partner:
            operator = _operator(value)
            numbers[operator] = number = numbers.get(operator, -1) + 1
            pairs.append(ValuePair(value.name or f"{operator}_{number}", operator, Probe(value), Probe(partner[value])))
    return pairs


def _grouped(values: Sequence[Value]) -> dict[tuple[Any, ...], list[Value]]:
    found: dict[tuple[Any, ...], list[Value]] = {}
    for value in values:
        found.setdefault((_operator(value), _shape(value)), []).append(value)
    return found


def _dequantized(value: Value) -> Value | None:
    """The real numbers that ``value`` is read as, if it is quantized on the way to all of its readers."""
    stored = _stored(value)
    if stored is None or is_inexact(stored):
        return stored
    value = stored
    found = [user.result for user in _users(value) if user.op_def.category is Category.QUANTIZATION and len(user.results) == 1]
    return next((v for v in found if is_inexact(v) and v.producer is not None and v.producer.operands[0] is value), None)


def _stored(value: Value) -> Value | None:
    """The integers as which ``value`` is stored: itself, or what it is quantized to for all of its readers.

    Or real numbers, where one operator quantizes it and gives them back.
    """
    if not is_inexact(value):
        return value if dtypes.is_integer(getattr(value.type, "dtype", "")) else None
    users = _users(value)
    if len(users) != 1 or users[0].op_def.category is not Category.QUANTIZATION or users[0].operands[0] is not value:
        return None
    return users[0].results[0]


def _users(value: Value) -> list[Node]:
    return list(dict.fromkeys(user for user, _ in value.uses))


def _shape(value: Value) -> tuple[int | None, ...] | None:
    """Sizes, None for one that is not known; None altogether for what has no rank."""
    if not isinstance(value.type, TensorType):
        return None
    return tuple(d if isinstance(d, int) else None for d in value.shape)


def _operator(value: Value) -> str:
    """The operator that computes the value, or that computes what was quantized."""
    made = value.producer
    while made is not None and made.op_def.category is Category.QUANTIZATION and made.operands[0] is not None:
        before = made.operands[0].producer
        if before is None:
            break
        made = before
    return "" if made is None else made.op


def _base(name: str) -> str:
    for suffix in SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def shapes_may_agree(a: Value, b: Value) -> bool:
    """Whether two values can have one shape."""
    if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType) or a.rank != b.rank:
        return False
    return not any(dims.is_static(x, y) and x != y for x, y in zip(a.shape, b.shape))
