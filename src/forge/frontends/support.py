"""Which operators of a format, or of a model, can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forge.errors import OpNotImplemented
from forge.frontends.registry import Registry

CONVERTER = "converter"
FUNCTION = "function"
MISSING = "missing"


@dataclass
class Use:
    """An operator of a model.

    Attributes:
        opset: the version of its domain that the model imports; 0 where a format has none.
        how: "converter", "function" (its body, the model's or the standard's, is expanded) or "missing".
        count: nodes, sub-graphs and functions included; a function's body counts once.
    """

    domain: str
    op: str
    opset: int
    how: str
    first_node: str
    count: int = 0


@dataclass(frozen=True)
class Coverage:
    """Versions of one operator of a format and how they are loaded.

    Attributes:
        how: "converter", "function" (the body that the standard gives is expanded) or "missing".
    """

    domain: str
    op: str
    versions: tuple[int, ...]
    how: str


@dataclass(frozen=True)
class Support:
    """The converters of a format, and what they cover.

    Attributes:
        registry: its converters.
        coverage: all of its operators, by domain and name.
        model_operators: the operators that the model in a file uses.
    """

    registry: Registry
    coverage: Callable[[], Sequence[Coverage]]
    model_operators: Callable[[Path], Sequence[Use]]


def check_supported(uses: Iterable[Use], registry: Registry) -> None:
    """Raises OpNotImplemented that lists all operators that are missing."""
    missing = [use for use in uses if use.how == MISSING]
    if not missing:
        return
    lines = "".join(
        f"  {registry.full_name(m.domain, m.op)}"
        + (f" (opset {m.opset})" if m.opset else "")
        + f": {m.count}x, first at node {m.first_node!r}"
        + (f": {reason}\n" if (reason := registry.refusal(m.domain, m.op)) else "\n")
        for m in missing
    )
    first = missing[0]
    domain = f", domain={first.domain!r}" if first.domain else ""
    raise OpNotImplemented(
        f"{len(missing)} {'operator is' if len(missing) == 1 else 'operators are'} not supported:\n{lines}"
        f"'forge support {registry.name}' lists what is; register a converter: "
        f"@forge.frontends.{registry.name}.register({first.op!r}{domain})"
    )
