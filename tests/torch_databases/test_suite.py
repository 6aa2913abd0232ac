"""Torch's databases against the lists of what agrees; with ``--sweeps`` a part of the names.

``python -m tests.torch_databases --update`` writes the lists: of float32 all names, of other element types a part (``--sample``).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.torch_databases.compare import differences  # noqa: E402
from tests.torch_databases.gauges import GAUGES  # noqa: E402
from tests.torch_databases.lists import DIED, OK, Database, listed  # noqa: E402

DATABASES = listed()


@pytest.mark.parametrize("database", DATABASES, ids=lambda d: f"{d.kind}-{d.dtype}")
def test_names_are_those_of_the_database(database: Database) -> None:
    assert set(database.read()) <= set(database.names())
    assert DIED not in database.read().values()


def test_gauges_take_other_signs_and_nothing_else() -> None:
    x = torch.arange(15.0, dtype=torch.float64).reshape(5, 3) ** 2
    parts = list(torch.linalg.svd(x))
    other = torch.tensor([1.0, -1.0, 1.0])
    same, wrong = [p.clone() for p in parts], [p.clone() for p in parts]
    same[0][:, :3] *= other
    same[2] *= other[:, None]
    wrong[0][:, :3] *= other
    gauge = GAUGES["linalg.svd"]
    arrays = [[t.numpy() for t in gauge(*case)] for case in (same, wrong)]
    assert not differences(arrays[0], list(gauge(*parts)))
    assert differences(arrays[1], list(gauge(*parts))).startswith("output 1")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("database", DATABASES, ids=lambda d: f"{d.kind}-{d.dtype}")
def test_what_is_listed_agrees(database: Database, take: Callable[..., list[str]]) -> None:
    names = take([name for name, state in database.read().items() if state == OK])
    found = {name: database.outcome(name) for name in names}
    assert not {name: text for name, (state, text) in found.items() if state != OK}
