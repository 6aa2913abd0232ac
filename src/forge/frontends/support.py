"""Which operators of a format, or of a model, can be loaded."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from forge import frontends
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
class Format:
    """What ``forge support`` knows of a format; its package calls it ``FORMAT``.

    Attributes:
        title: the format's name in texts.
        suffixes: endings of its files.
        registry: its converters.
        coverage: all of its operators, by domain and name.
        model_operators: the operators that a model uses.
        takes_shapes: whether its loader takes shapes of inputs in place of the model's.
    """

    title: str
    suffixes: tuple[str, ...]
    registry: Registry
    coverage: Callable[[], Sequence[Coverage]]
    model_operators: Callable[[Path], Sequence[Use]]
    takes_shapes: bool = False


def format_names() -> list[str]:
    """The formats that there are importers for: the packages of ``forge.frontends``."""
    return sorted(module.name for module in pkgutil.iter_modules(frontends.__path__) if module.ispkg and module.name != "state")


def load_format(name: str) -> Format:
    found: Format = import_module(f"{frontends.__name__}.{name}").FORMAT
    return found


def format_of(path: Path) -> Format | None:
    """The format of a file, by its ending; None when it is none of an importer."""
    return next((f for f in map(load_format, format_names()) if path.suffix in f.suffixes), None)


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
