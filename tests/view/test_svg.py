"""``ir.plot()``: well-formed SVG with every box, guards, and hostile names."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import forge
from forge.errors import OptionError
from tests.view import models

SPACE = "{http://www.w3.org/2000/svg}"


def ir_of(module: forge.ir.Module) -> forge.IRModule:
    return forge.IRModule(module, fold_constants=False, fold_batch_norms=False)


def texts(svg: str) -> list[str]:
    return [t.text or "" for t in ElementTree.fromstring(svg).iter(f"{SPACE}text")]


def test_every_node_and_group_is_drawn() -> None:
    found = texts(ir_of(models.nested()).plot().svg)
    assert found.count("dense") == 4
    assert found.count("relu") == 4
    assert {"net", "block_a", "block_b", "first", "second", "x"} <= set(found)
    assert found.count("weight 8×8 f32") == 4


def test_groups_stay_closed_beyond_max_nodes() -> None:
    ir = ir_of(models.nested())
    assert "dense" not in texts(ir.plot(max_nodes=5).svg)
    assert {"block_a", "block_b"} <= set(texts(ir.plot(max_nodes=5).svg))


def test_regions_and_functions_are_drawn() -> None:
    ir = ir_of(models.control())
    found = texts(ir.plot().svg)
    assert {"then_branch", "else_branch", "sqrt", "negative"} <= set(found)
    assert found.count("exp") == 2
    assert "exp" in texts(ir.plot(graph="double").svg)


def test_notebooks_and_files_get_it(tmp_path: Path) -> None:
    plot = ir_of(models.nested()).plot()
    assert plot._repr_svg_() == plot.svg
    plot.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == plot.svg
    assert "save(path)" in repr(plot)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"max_nodes": 2}, "expected at least 3, the outermost boxes of @main"),
    ({"max_nodes": 0}, "max_nodes: got 0; expected a positive integer"),
    ({"max_nodes": True}, "expected a positive integer"),
    ({"graph": "f"}, "graph: got 'f'; expected one of: main"),
])
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ir_of(models.nested()).plot(**arguments)  # type: ignore[arg-type]


def test_hostile_names_are_text() -> None:
    svg = ir_of(models.hostile()).plot().svg
    root = ElementTree.fromstring(svg)
    known = {"svg", "title", "style", "defs", "marker", "path", "g", "rect", "text"}
    assert {e.tag.removeprefix(SPACE) for e in root.iter()} == known
    assert not [a for e in root.iter() for a in e.attrib if a.startswith("on") or "href" in a]
    svg.encode("utf-8")


def test_ten_thousand_nodes_are_drawn_closed() -> None:
    assert len(texts(ir_of(models.flat(10_000)).plot().svg)) < 500
