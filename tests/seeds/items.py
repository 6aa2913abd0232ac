"""What the seed documents describe, item by item. A decorator puts an item on the test that shows it.

``docs/reference/seeds.md`` lists them all.

    @works("set_batch_size(batch_size) in place")
    def test_batch_size() -> None: ...

``differs`` is for what Forge does otherwise on purpose: the test shows what it does, ``why`` says the reason. ``later`` names
what is not built; its test fails when that is there, so that the list cannot go stale.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

SEEDS = {
    "000": "Loaders of models",
    "001": "The class `RelayModule`",
    "002": "Guide to introspection",
    "003": "Walk through an ONNX importer (article)",
    "004": "Frontends of Relax",
}


@dataclass(frozen=True)
class Item:
    """One thing that a seed describes."""

    what: str
    status: str
    note: str = ""


def works(*what: str, note: str = "") -> Callable[[Test], Test]:
    """The test shows that these items hold."""
    return _marker([Item(text, "works", note) for text in what])


def differs(*what: str, why: str) -> Callable[[Test], Test]:
    """The test shows what Forge does instead."""
    return _marker([Item(text, "differs", why) for text in what])


def later(*what: str, note: str) -> Callable[[Test], Test]:
    """Not built; the test fails when it is."""
    return _marker([Item(text, "not built yet", note) for text in what])


def _marker(items: list[Item]) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        vars(test)["seed_items"] = [*items, *vars(test).get("seed_items", [])]
        return test

    return mark


def collect(seed: str) -> Iterator[tuple[Item, str]]:
    """The items of a seed with the names of their tests, in order of the tests."""
    module = import_module(f"tests.seeds.test_{seed}")
    tests = [value for name, value in vars(module).items() if name.startswith("test_") and inspect.isfunction(value)]
    for test in sorted(tests, key=lambda t: t.__code__.co_firstlineno):
        for item in vars(test).get("seed_items", []):
            yield item, test.__name__


HEAD = """# Forge and its seeds

Forge implements what five documents describe, the seeds, and goes beyond them. This page lists every item of theirs with the test
that shows it, in `tests/seeds`. It is written from those tests by `python -m scripts.write_docs`.

"""


def page() -> str:
    """``docs/reference/seeds.md``."""
    parts, counts = [], dict.fromkeys(("works", "differs", "not built yet"), 0)
    for seed, title in SEEDS.items():
        rows = []
        for item, test in collect(seed):
            counts[item.status] += 1
            rows.append(f"| {_cell(item.what)} | {item.status} | {_cell(item.note)} | `{test}` |\n")
        head = f"\n## {seed}: {title}\n\nTests: `tests/seeds/test_{seed}.py`\n\n"
        parts.append(f"{head}| item | | note | test |\n| --- | --- | --- | --- |\n{''.join(rows)}")
    total = sum(counts.values())
    works, differ, missing = counts.values()
    summary = f"{total} items: {works} work, {differ} differ for a reason, {missing} are not built yet.\n"
    return HEAD + summary + "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
