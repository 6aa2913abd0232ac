"""Torch's databases against the lists of what agrees; with ``--sample`` a tenth of the names.

``python -m tests.torch_databases --update`` writes the lists.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.sampling import sample
from tests.torch_databases.lists import DIED, OK, Database

DATABASES = [Database("operators", "float32"), Database("modules", "float32")]


@pytest.mark.parametrize("database", DATABASES, ids=lambda d: f"{d.kind}-{d.dtype}")
def test_names_are_those_of_the_database(database: Database) -> None:
    assert set(database.read()) <= set(database.names())
    assert DIED not in database.read().values()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("database", DATABASES, ids=lambda d: f"{d.kind}-{d.dtype}")
def test_what_is_listed_agrees(database: Database, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--sample")
    listed = [name for name, state in database.read().items() if state == OK]
    found = {name: database.outcome(name) for name in (sample(listed, seed) if seed else listed)}
    assert not {name: text for name, (state, text) in found.items() if state != OK}
