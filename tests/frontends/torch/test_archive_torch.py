"""``.pt2`` files that torch wrote give the programs that torch holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.frontends.torch import import_model  # noqa: E402
from forge.frontends.torch.archive import read_program  # noqa: E402
from forge.frontends.torch.exported import program_of  # noqa: E402
from forge.frontends.torch.importer import import_program  # noqa: E402
from forge.frontends.torch.program import Program, Ref  # noqa: E402
from forge.ir.saved.hashing import structural_hash  # noqa: E402
from forge.ir.verifier import verify  # noqa: E402
from tests.frontends.torch.programs import PROGRAMS  # noqa: E402


def plain(program: Program) -> dict[str, Any]:
    """A program with numbers in the place of names, which are torch's in one form and the file's in the other."""
    numbers: dict[str, int] = {}

    def numbered(value: Any) -> Any:
        if isinstance(value, Ref):
            return ("value", numbers.get(value.name, value.name))
        if isinstance(value, list | tuple):
            return [numbered(v) for v in value]
        return value

    for name in [*(i.name for i in program.inputs), *program.weights]:
        numbers[name] = len(numbers)
    steps = []
    for step in program.steps:
        arguments = {name: numbered(value) for name, value in step.arguments.items()}
        for name in filter(None, step.outputs):
            numbers[name] = len(numbers)
        outputs = [(numbers.get(name), program.metas[name] if name else None) for name in step.outputs]
        steps.append((step.name, step.target, arguments, outputs, step.module, step.source))
    return {
        "steps": steps,
        "inputs": [(i, program.metas.get(i.name) if not i.is_constant else None) for i in program.inputs],
        "weights": {
            n: (w.label, w.is_parameter, w.is_buffer, program.metas[n], w.read().dtype, w.read().tobytes())
            for n, w in program.weights.items()
        },
        "results": [(label, numbered(value)) for label, value in program.results],
        "mutations": {numbers[of]: numbers[by] for of, by in program.mutations.items()},
        "bounds": program.bounds,
        "parts": {name: plain(part) for name, part in program.parts.items()},
    }


@pytest.fixture(scope="module", params=PROGRAMS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    exported = PROGRAMS[request.param]()
    path = tmp_path_factory.mktemp(request.param) / "model.pt2"
    torch.export.save(exported, path)
    return exported, path


def test_files_give_the_program_of_torch(saved: tuple[Any, Path]) -> None:
    exported, path = saved
    expected, found = plain(program_of(exported)), plain(read_program(path))
    for key, value in expected.items():
        assert found[key] == value, key


def test_files_give_the_module_of_torch(saved: tuple[Any, Path]) -> None:
    exported, path = saved
    program = program_of(exported)
    program.symbol_names.clear()  # what the user calls sizes is not in files
    module = import_model(path)
    verify(module)
    assert structural_hash(module) == structural_hash(import_program(program))


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt2"
    torch.export.save(PROGRAMS["weights"](), path)
    arrays = {w.label: w.read() for w in read_program(path).weights.values()}
    assert not any(a.flags.owndata or a.flags.writeable for label, a in arrays.items() if label != "empty")
    assert np.shares_memory(arrays["turned"], arrays["part"])
    assert arrays["turned"].strides == (4, 24)
