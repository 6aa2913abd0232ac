"""Which layers of a quantized model are computed with integers, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass, field

from forge import dtypes
from forge.backend import Stage
from forge.driver.compilation import Compilation
from forge.ir.edits import journal
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ir.quantized import is_quantized

STAGE = "to_integers"
_LAYERS = (Category.CONTRACTION, Category.ACTIVATION, Category.NORMALIZATION, Category.REDUCTION)


@dataclass(frozen=True)
class Layer:
    """A layer, as the model has it. ``reason`` says why it is not computed with integers; empty: it is."""

    label: str
    operator: str
    reason: str = ""


@dataclass
class Layers:
    """An observer of stages that looks at the graphs before and after the one that makes integers."""

    kept: journal.Journal
    before: list[tuple[Node, Layer]] = field(default_factory=list)
    found: list[Layer] = field(default_factory=list)

    def __call__(self, stage: Stage, compilation: Compilation) -> None:
        if stage.name == STAGE:
            reasons = {a.node: a.reason for a in self.kept.declined() if a.stage == STAGE}
            self.found = [Layer(known.label, known.operator, _reason(node, reasons)) for node, known in self.before]
        elif stage.phase == "graph" and not self.found:
            graphs = [function.graph for function in compilation.functions]
            if any(is_quantized(n) for g in graphs for n in g.walk()):
                self.before = [(n, Layer(n.label, n.op)) for g in graphs for n in g.walk() if _is_layer(n)]


def _is_layer(node: Node) -> bool:
    """Whether users would call it one: a product, or what is computed with real numbers that are worth quantizing."""
    computed = [v for v in node.operands if v is not None and v.constant is None]
    if not computed or not node.results or node.op_def.category is Category.QUANTIZATION:
        return False
    if node.op_def.category is Category.CONTRACTION:
        return True
    return _is_real(node.results[0]) and (node.op_def.category in _LAYERS or any(map(_is_dequantized, computed)))


def _reason(node: Node, reasons: dict[Node, str]) -> str:
    """Why the stage left ``node`` as it was; empty: it did not, or the node is one on integers."""
    if node.graph is None or not _is_real(node.results[0]) or node.op_def.rounds_data(node.attrs):
        return reasons.get(node, "")
    if node in reasons:
        return reasons[node]
    computed = [v for v in node.operands if v is not None and v.constant is None]
    if any(map(_is_dequantized, computed)):
        return "floats are computed from quantized values"
    return "what it reads is not quantized"


def _is_real(value: Value) -> bool:
    return dtypes.is_float(getattr(value.type, "dtype", ""))


def _is_dequantized(value: Value) -> bool:
    made = value.producer
    return made is not None and made.op_def.category is Category.QUANTIZATION and _is_real(value)
