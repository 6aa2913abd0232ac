"""Options shared by all tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.runs import clock, kept, report, selection

if TYPE_CHECKING:
    import forge

# Whole models are compiled anew, since the key of the cache has all of Forge's sources; what LLVM made of equal texts is kept.
os.environ.setdefault("FORGE_CACHE", "objects")
os.environ.setdefault("FORGE_CACHE_DIR", str(kept.folder()))
# LLVM's processes share the CPUs with the workers of pytest-xdist, of which this may be one.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _WORKERS = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("FORGE_COMPILE_PROCESSES", str(max(1, len(os.sched_getaffinity(0)) // _WORKERS)))
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
    parser.addoption("--clock", metavar="NAME", help="keep how long each case took under this name, for tests.clock")
    parser.addoption("--report", metavar="FILE", help="say what the runs before have put into FILE, and add what this one did")
    selection.add_options(parser)


@pytest.fixture
def take(request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    """Chooses, of the cases that a test runs by itself, those of this run: see `selection.taker`."""
    return selection.taker(request.config, request.node.nodeid)


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
def narrow_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contractions become narrow where options allow it, whether or not that takes less time."""
    from forge.kernels.layouts import CpuLayouts

    monkeypatch.setattr(CpuLayouts, "speedup", lambda *_: 2.0)


@pytest.fixture
def compile_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns the compile cache on, in a folder that the tests of one process share; object code is that of all tests."""
    folder = tmp_path_factory.getbasetemp() / "compile-cache"
    if not folder.exists():
        folder.mkdir()
        (kept.folder() / "objects").mkdir(parents=True, exist_ok=True)
        (folder / "objects").symlink_to(kept.folder() / "objects")
    monkeypatch.setenv("FORGE_CACHE", "1")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(folder))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Cases and modules live as long as the run: the garbage collector need not walk over them again and again."""
    gc.collect()
    gc.freeze()


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


def pytest_configure(config: pytest.Config) -> None:
    plugins, worker = config.pluginmanager, hasattr(config, "workerinput")
    chosen = selection.Selection(config)
    plugins.register(chosen, "selection")
    name = config.getoption("--clock")
    if name and (worker or not config.getoption("numprocesses", None)):
        plugins.register(clock.Parts(), "clock-parts")
    if worker:
        return
    noted = config.getoption("--note-passed")
    if chosen.quick or chosen.sweeps or noted:
        watch = selection.Watch(noted, bool(chosen.sweeps))
        plugins.register(watch, "watch")
        plugins.register(report.Report(chosen, watch, name or "", config.getoption("--report")), "what-was-run")
    if name:
        plugins.register(clock.Recorder(name), "clock")
    if config.getoption("--require-optional"):
        plugins.register(MissingPackages(), "missing-packages")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist says what it selected."""
    output = getattr(session.config, "workeroutput", None)
    chosen = session.config.pluginmanager.get_plugin("selection")
    if output is not None and chosen is not None:
        output |= {"counts": chosen.counts, "sampled": chosen.sampled}
