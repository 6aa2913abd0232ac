"""Files with seeded changes give an error of Forge or a module: no crash, no other exception, no pickle, and all of it soon."""

from __future__ import annotations

import pickle  # noqa: TID251 - to see that nothing is loaded
import resource
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from forge.errors import ForgeError, InternalError
from forge.frontends.torch import import_model
from forge.ir.verifier import verify
from tests.frontends.torch.archives import NETWORK, mutant

SECONDS = 10.0
MEGABYTES = 1500


def outcome(data: bytes, path: Path) -> str:
    """What became of a file: "module", which is valid, or the name of the error."""
    path.write_bytes(data)
    start = time.process_time()  # of the process: others may be running
    module = None
    try:
        module = import_model(path)
        found = "module"
    except ForgeError as error:
        assert not isinstance(error, InternalError), error
        cause: BaseException | None = error
        while cause is not None:
            assert not isinstance(cause, MemoryError), error
            cause = cause.__cause__
        found = type(error).__name__
    if module is not None:
        verify(module)
    took = time.process_time() - start
    assert took < SECONDS, f"it took {took:.1f} seconds"
    return found


def campaign(seeds: Sequence[bytes], numbers: range, folder: Path) -> Counter[str]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("load", "loads", "Unpickler"):
            patch.setattr(pickle, name, refuse)
        for number in numbers:
            data = mutant(seeds[number % len(seeds)], number)
            try:
                found[outcome(data, folder / "mutant.pt2")] += 1
            except Exception as error:
                raise AssertionError(f"mutant {number}: {type(error).__name__}: {error}") from error
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < MEGABYTES, f"memory grew by {grown} MiB"
    return found


def refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a pickle was loaded")


def test_some_mutants(tmp_path: Path) -> None:
    found = campaign([NETWORK.read_bytes()], range(250), tmp_path)
    assert found["module"] > 10
    assert found["ImportModelError"] > 100


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutants(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from tests.frontends.torch.programs import PROGRAMS

    seeds = [NETWORK.read_bytes()]
    for name, make in PROGRAMS.items():
        torch.export.save(make(), tmp_path / f"{name}.pt2")
        seeds.append((tmp_path / f"{name}.pt2").read_bytes())
    found = campaign(seeds, range(5000), tmp_path)
    assert found["module"] > 200
    assert found["ImportModelError"] > 2000
