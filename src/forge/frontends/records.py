"""Documents of JSON from files that may be hostile: each value knows where it stands, and says what it is not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from forge.errors import ImportModelError

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
MAX_INTEGER = 1 << 64


@dataclass(frozen=True, slots=True)
class Record:
    """A value of a document; ``label`` is its place in ``parent``."""

    value: Any
    label: str
    parent: Record | None = None

    @property
    def path(self) -> str:
        """As messages name it: ``model.json: graph.nodes[3].target``."""
        labels, at = [], self
        while at.parent is not None:
            labels.append(at.label)
            at = at.parent
        return f"{at.label}: {''.join(reversed(labels)).removeprefix('.')}" if labels else at.label

    def wrong(self, expected: str) -> ImportModelError:
        shown = json.dumps(self.value)[:100] if not isinstance(self.value, dict | list) else f"{type(self.value).__name__}"
        return ImportModelError(f"{self.path}: got {shown}; expected {expected}; save the model again")

    def __getitem__(self, key: str) -> Record:
        """A field of an object, which must be there."""
        if not isinstance(self.value, dict) or key not in self.value:
            raise self.wrong(f"an object with {key!r}")
        return Record(self.value[key], f".{key}", self)

    def get(self, key: str) -> Record | None:
        """A field that may be absent or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return None if self.value.get(key) is None else Record(self.value[key], f".{key}", self)

    def items(self) -> list[Record]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Record(item, f"[{k}]", self) for k, item in enumerate(self.value)]

    def pairs(self) -> list[tuple[str, Record]]:
        """The fields of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [(key, Record(item, f".{key}", self)) for key, item in self.value.items()]

    def variant(self) -> tuple[str, Record]:
        """The one field of an object that says by its name what it holds: ``{"as_int": 3}``."""
        if not isinstance(self.value, dict) or len(self.value) != 1:
            raise self.wrong("an object with one field")
        return self.pairs()[0]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    def integer(self) -> int:
        if type(self.value) is not int or abs(self.value) >= MAX_INTEGER:
            raise self.wrong("an integer of 64 bits")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def number(self) -> float:
        """A floating-point number; those that are not finite are texts."""
        if isinstance(self.value, str) and self.value in _NOT_FINITE:
            return _NOT_FINITE[self.value]
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.wrong("a number")
        return float(self.value)


def parse(data: bytes | str, label: str) -> Record:
    """The document in ``data``, called ``label``.

    Raises:
        ImportModelError: it is not JSON, has a key twice, or is nested too deeply.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        return Record(json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant), label)
    except RecursionError as error:
        raise ImportModelError(f"{label}: JSON is nested too deeply; expected that of a model") from error
    except ValueError as error:
        raise ImportModelError(f"{label}: got no JSON ({str(error)[:200]}); expected that of a model") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:100]!r} is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
