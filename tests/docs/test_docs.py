"""Documentation runs: the Python blocks of every page in order, and the listings read back."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forge.ir.parser import parse_module
from forge.ir.printer import print_module
from forge.ir.verifier import verify
from forge.target import Target
from tests.foreign.machine import missing
from tests.runtime.building import compile_c

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^prints\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [m[2] for m in BLOCK.finditer(page.read_text()) if m[1] == language]


def cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def script_of(page: Path) -> str:
    """The Python blocks, each on the lines that it has in the page, so that tracebacks tell the place; or a notebook's cells."""
    if page.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in cells(page))
    text = page.read_text()
    lines = [""] * (text.count("\n") + 1)
    for match in BLOCK.finditer(text):
        if match[1] == "python":
            first = text.count("\n", 0, match.start(2))
            code = match[2].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines)


def has_blocks(language: str) -> list[Path]:
    return [p for p in PAGES if blocks(p, language)]


def skip_without_packages(page: Path) -> None:
    for package in ("torch", "transformers", "jax", "flax", "tensorflow"):
        if re.search(rf"^import {package}$", script_of(page), re.MULTILINE) and importlib.util.find_spec(package) is None:
            pytest.skip(f"could not import {package!r}: not installed")
    if "qemu-aarch64" in script_of(page) and (lacking := missing(Target.parse("llvm -mtriple=aarch64-linux-gnu"))):
        pytest.skip(lacking)


def run(page: Path, folder: Path) -> str:
    """Runs the page's Python blocks in ``folder`` and returns what they print."""
    skip_without_packages(page)
    (folder / "examples").symlink_to(ROOT / "examples")
    script = folder / f"{page.stem}_page.py"  # no page hides the package that it is named after
    script.write_text(script_of(page))
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page.relative_to(ROOT)}:\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", has_blocks("python"), ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run_and_print_the_listings(page: Path, tmp_path: Path) -> None:
    printed = run(page, tmp_path)
    listings = [text for text in blocks(page, "relay") if "meta[" in text] + PRINTED.findall(page.read_text())
    for listing in listings:
        assert listing.strip() in printed


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_run_and_are_kept_without_outputs(notebook: Path, tmp_path: Path) -> None:
    assert not [cell for cell in cells(notebook) if cell["outputs"] or cell["execution_count"]]
    assert run(notebook, tmp_path)


@pytest.mark.parametrize("page", has_blocks("relay"), ids=lambda p: str(p.relative_to(ROOT)))
def test_listings_are_canonical(page: Path) -> None:
    listings = [text for text in blocks(page, "relay") if "meta[" not in text]
    for listing in listings:
        module = parse_module(listing)
        verify(module)
        assert print_module(module) == listing


C_OF_TENSORS = """
#include "dlpack.h"
#include "forge_runtime.h"
{block}
int main(void) {{
  uint16_t data[6];
  int64_t shape[] = {{2, 3}}, strides[] = {{1, 2}};
  DLTensor from = {{.data = data, .device = {{kDLCPU, 0}}, .ndim = 2, .dtype = {{kDLBfloat, 16, 1}}, .shape = shape}};
  forge_tensor to;
  if (!view(&from, &to) || to.data != data || to.dtype != FORGE_BFLOAT16 || to.ndim != 2 || to.shape[1] != 3) return 1;
  from.strides = strides;
  return view(&from, &to);
}}
"""


def test_the_c_block_of_tensors_runs(tmp_path: Path) -> None:
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("could not import 'torch': its headers hold those of DLPack")
    source, program = tmp_path / "view.c", tmp_path / "view"
    source.write_text(C_OF_TENSORS.format(block="\n".join(blocks(ROOT / "docs" / "guides" / "tensors.md", "c"))))
    compile_c(f"-I{Path(torch.origin).parent / 'include' / 'ATen'}", source, "-o", program)
    assert subprocess.run([program], check=False).returncode == 0


PYTORCH = """
import torch
import forge
model, images = torch.nn.Conv2d(3, 4, 3).eval(), torch.rand(2, 3, 224, 224)
{block}
torch.testing.assert_close(torch.from_numpy(forge.Runtime("build")(images)), logits)
"""


def test_the_torch_block_of_the_readme_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (block,) = [text for text in blocks(ROOT / "README.md", "text") if "from_torch(" in text]
    subprocess.run([sys.executable, "-c", PYTORCH.format(block=block)], cwd=tmp_path, check=True)


def test_pages_are_found() -> None:
    assert {"README.md", "tour.md", "text_format.md", "extending.md"} <= {p.name for p in has_blocks("python")}


def test_a_failing_block_is_reported_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 1\nassert x == 2\n```\n")
    assert script_of(page).splitlines()[10] == "assert x == 2"
    assert script_of(page).splitlines()[3] == "x = 1"
