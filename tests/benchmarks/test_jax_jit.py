"""The networks in flax: Forge computes what jax does, and the benchmark runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

pytest.importorskip("flax")

from benchmarks import jax_jit
from benchmarks.jax_networks import NETWORKS


def test_all_networks_have_names() -> None:
    assert set(NETWORKS) == set(jax_jit.NAMES)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3", "convnext", "unet", "vit", "edsr"])
def test_networks_of_images(name: str, dynamic: bool) -> None:
    options = argparse.Namespace(small=True, batch=3 if dynamic else 1, dynamic=dynamic, seconds=0.0)
    assert jax_jit.measure(name, options)["error"] < 1e-5


def test_a_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    assert jax_jit.main(["mlp", "--small", "--seconds", "0", "--json", str(path)]) == 0
    assert "geometric means of 1" in capfd.readouterr().out
    assert json.loads(path.read_text())["mlp"]["error"] < 1e-5
