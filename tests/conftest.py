"""Options shared by all tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.sampling import sample

if TYPE_CHECKING:
    import forge

os.environ.setdefault("FORGE_CACHE", "0")
# How long an example takes is the machine's matter, and so is how many of them fit into a second.
settings.register_profile(
    "forge", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.load_profile("forge")
_MISSING_PACKAGE = "could not import"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-optional",
        action="store_true",
        help="fail the run if a test was skipped because an optional package is missing",
    )
    parser.addoption("--note-passed", metavar="FILE", help="write the names of the tests that pass to FILE")
    parser.addoption("--except-passed", metavar="FILE", help="leave out the tests that FILE names")
    parser.addoption("--sample", metavar="SEED", help="of long sweeps run a tenth, chosen by a hash of SEED and case")


@pytest.fixture(scope="session")
def digits() -> forge.IRModule:
    """The classifier of the demo: input ``image`` of shape (batch, 1, 8, 8), output ``logits``. Do not change it."""
    import forge

    return forge.from_onnx(Path(__file__).parent.parent / "examples" / "digits" / "digits.onnx")


@pytest.fixture(scope="session")
def digits_build(digits: forge.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled ``digits``. Do not change it."""
    path = tmp_path_factory.mktemp("digits") / "build"
    digits.compile(output_path=path, export_metadata=True, uuid="digits")
    return path


@pytest.fixture
def compile_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns the compile cache on, in a folder that the tests of one process share."""
    monkeypatch.setenv("FORGE_CACHE", "1")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "compile-cache"))


def pytest_runtest_setup() -> None:
    """What torch draws in a test, such as weights of layers, does not depend on the tests before it in the process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


class MissingPackages:
    """Collects tests and modules that ``pytest.importorskip`` has skipped, and fails the run over them."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple) and _MISSING_PACKAGE in report.longrepr[2]:
            self.skipped[report.nodeid] = report.longrepr[2]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.skipped and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid, reason in sorted(self.skipped.items()):
            terminalreporter.write_line(f"REQUIRED, BUT SKIPPED {nodeid}: {reason}", red=True)


class PassedTests:
    """Writes the names of tests that pass, for a later run that need not repeat them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.names.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{json.dumps(name)}\n" for name in self.names))


def _keep(config: pytest.Config, items: list[pytest.Item], kept: set[str]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def _sampled(items: list[pytest.Item], seed: str) -> set[str]:
    """All quick tests, and of every slow test function a tenth of its cases: at least one."""
    sweeps: dict[str, list[str]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            sweeps.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    left_out = {case for cases in sweeps.values() for case in set(cases) - set(sample(cases, seed))}
    return {item.nodeid for item in items} - left_out


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path, seed = config.getoption("--except-passed"), config.getoption("--sample")
    if path:
        passed = {json.loads(line) for line in Path(path).read_text().splitlines()}
        _keep(config, items, {item.nodeid for item in items} - passed)
    if seed:
        _keep(config, items, _sampled(items, seed))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seed = config.getoption("--sample")
    if seed:
        terminalreporter.write_line(f"Long sweeps were sampled; their cases: pytest -m slow --collect-only -q --sample={seed}")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--note-passed")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(PassedTests(Path(path)), "passed-tests")
    if config.getoption("--require-optional"):
        config.pluginmanager.register(MissingPackages(), "missing-packages")
