"""The page's text: self-contained, inert where names are hostile, and complete."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from forge.ir import Module
from forge.view import page
from tests.view import models


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def content(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page(models.nested(), "nested.onnx")
    elements = Elements(text)
    assert not {"link", "img", "iframe", "base"} & set(elements.tags)
    assert not [v for k, v in elements.attributes if k in ("src", "href", "action")]
    assert set(re.findall(r"https?://[\w./-]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(#arrow)" in text
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text


def test_scripts_never_write_markup() -> None:
    text = page(models.nested(), "nested.onnx")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)


@pytest.mark.parametrize("name", models.HOSTILE, ids=range(len(models.HOSTILE)))
def test_hostile_names_add_no_element(name: str) -> None:
    plain, attacked = Elements(page(models.nested(), "x")), Elements(page(models.hostile(), name))
    assert attacked.tags == plain.tags
    page(models.hostile(), name).encode("utf-8")


def test_nodes_are_described() -> None:
    data = content(page(models.nested(), "nested.onnx"))
    dense = next(b for b in data["boxes"] if b.get("op") == "nn.dense")
    assert dense["name"] == "net/block_a/first/dense"
    assert {"name": "units", "text": "8", "default": False} in dense["attributes"]
    assert [o["formal"] for o in dense["operands"]] == ["data", "weight"]
    assert dense["operands"][1] | {"from": None} == {
        "formal": "weight", "name": "net/block_a/first.weight", "type": "Tensor[(8, 8), float32]", "bytes": 256,
        "constant": "[1, 1, 1, 1, 1, 1, 1, 1, …]", "from": None}
    assert dense["cost"]["flops"] == 256
    assert data["boxes"][dense["results"][0]["to"][0]]["op"] == "nn.relu"
    assert "sum over k" in data["docs"]["nn.dense"]


def test_groups_and_graphs_sum_their_nodes() -> None:
    data = content(page(models.nested(), "nested.onnx"))
    block = next(b for b in data["boxes"] if b["label"] == "block_a")
    assert block["nodes"] == 5
    assert dict(block["operators"]) == {"nn.dense": 2, "nn.relu": 2, "add": 1}
    (main,) = data["graphs"]
    assert main["nodes"] == 10
    assert main["cost"]["parameters"] == 256
    assert main["cost"]["flops"] == 2 * block["cost"]["flops"]


@pytest.mark.parametrize("module", [models.nested(), models.control(), models.flat(900), models.hostile()],
                         ids=["nested", "control", "flat", "hostile"])
def test_numbers_refer_to_what_exists(module: Module) -> None:
    data = content(page(module, "x"))
    for scope in data["scopes"]:
        cells = [cell for row in scope["rows"] for cell in row]
        boxes = [ref for kind, ref, _ in cells if kind == "b"]
        assert len(set(boxes)) == len(boxes)
        assert all(0 <= ref < len(data["boxes"]) for ref in boxes)
        for start, end, bends, values, _ in scope["edges"]:
            assert all(0 <= k < len(cells) for k in (start, end, *bends))
            assert all(cells[k][0] == "." for k in bends)
            assert all(0 <= v < len(data["values"]) for v in values)
    assert all(0 <= b["inside"] < len(data["scopes"]) for b in data["boxes"] if "inside" in b)
