"""``.pt2`` files that are changed, without torch: their entries, their JSON, and seeded mutations of both."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NETWORK = Path(__file__).with_name("network.pt2")
MODEL = "models/model.json"
WEIGHTS, CONSTANTS = (f"data/{kind}/model_{kind}_config.json" for kind in ("weights", "constants"))
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**62, 2**63, -(2**63), 2**70, 0.5, 1e308, "", "x", "NaN", "Infinity", "../x", "\0",
    "model.json", [], {}, [1], [[1]], {"as_int": 1}, {"as_int": -1}, {"as_int": 2**62}, {"as_none": True},
    {"as_tensor": {"name": "x"}}, {"as_bool": True},
    {"as_expr": {"expr_str": "Symbol('s0', integer=True)"}}, {"as_expr": {"expr_str": "Pow(Integer(9), Integer(9))"}},
    {"as_string": "add"}, {"as_float": "NaN"}, {"as_sym_int": {"as_name": "x"}}, {"as_ints": [2**62, 2**62]}, {"as_tensors": []},
    "torch.ops.aten.add.Tensor", "torch.ops.aten.expand.default", "torch.ops.aten.view.default", "torch.ops.aten.cat.default",
    "torch.ops.higher_order.cond", "_operator.mul", "torch.ops.aten.full.default",
)  # fmt: skip


def entries(data: bytes) -> dict[str, bytes]:
    """The contents of an archive by name, without the first folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def packed(contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive; names that begin with a space are those after it, so that there may be two of one name."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", compression) as archive:
        warnings.simplefilter("ignore")
        for name, data in contents.items():
            archive.writestr(f"network/{name.lstrip(' ')}", data)
    return stream.getvalue()


def edited(data: bytes, edit: Callable[[Any], None], entry: str = MODEL) -> bytes:
    """The archive with a JSON document that ``edit`` has changed."""
    contents = entries(data)
    document = json.loads(contents[entry])
    edit(document)
    contents[entry] = json.dumps(document).encode()
    return packed(contents)


def mutant(data: bytes, seed: int) -> bytes:
    """The archive with a few changes."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        try:
            data = rng.choice((_flip, _cut, _edit, _edit, _edit, _edit, _edit, _change_entries, _change_text))(data, rng)
        except Exception:  # noqa: BLE001 - earlier changes may have left no archive at all
            data = _flip(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    tail = max(0, len(changed) - 1200)
    for _ in range(rng.choice((1, 2, 8))):
        if changed:
            changed[rng.randrange(rng.choice((0, tail)), len(changed))] = rng.choice((0, 1, 0xFF, 0x7F, rng.randrange(256)))
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return rng.choice((data[:start], data[:start] + data[start + rng.randrange(200) :], data + data[start:]))


def _change_entries(data: bytes, rng: random.Random) -> bytes:
    contents = entries(data)
    name, other = rng.choice(list(contents)), rng.choice(list(contents))
    change = rng.randrange(5)
    if change == 0:
        del contents[name]
    elif change == 1:
        contents[f" {name}"] = contents[other]
    elif change == 2:
        contents[name], contents[other] = contents[other], contents[name]
    elif change == 3:
        contents[name] = contents[name][: rng.randrange(len(contents[name]) + 1)]
    else:
        return packed(contents, zipfile.ZIP_DEFLATED)
    return packed(contents)


def _change_text(data: bytes, rng: random.Random) -> bytes:
    """Changes the text of a document, so that it may be no JSON any more."""
    contents = entries(data)
    name = rng.choice((MODEL, WEIGHTS, CONSTANTS))
    text = contents[name]
    at = rng.randrange(len(text) + 1)
    insert = rng.choice((b"NaN", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000, b'"', b",", b"-", b"\xff", b"null", b"1e999"))
    contents[name] = text[:at] + insert + text[at + rng.randrange(3) :]
    return packed(contents)


def _edit(data: bytes, rng: random.Random) -> bytes:
    entry = rng.choice((MODEL, MODEL, MODEL, MODEL, WEIGHTS, CONSTANTS))

    def change(document: Any) -> None:
        places = [p for p in _places(document) if p[2] not in ("metadata",)]
        parent, key, label = rng.choice(places)
        donor, at, _ = rng.choice(places)
        action = rng.randrange(6)
        if action == 0:
            del parent[key]
        elif action == 1:
            parent[key] = json.loads(json.dumps(donor[at]))
        elif action == 2 and isinstance(parent, list):
            parent.insert(key, json.loads(json.dumps(parent[key])))
        elif action == 3 and isinstance(parent, list):
            rng.shuffle(parent)
        else:
            same = [p[at] for p, at, other in places if other == label]
            parent[key] = rng.choice(same) if action == 4 else rng.choice(_VALUES)

    return edited(data, change, entry)


def _places(value: Any, label: str = "") -> Iterator[tuple[Any, Any, str]]:
    """All values of a document: what each is in, its key there, and the name of the field around it."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        name = key if isinstance(key, str) else label
        if name != "metadata" or isinstance(key, str):
            yield value, key, name
        if isinstance(item, dict | list) and name != "metadata":
            yield from _places(item, name)
