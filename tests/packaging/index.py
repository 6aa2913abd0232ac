"""A package index on this machine that keeps a log, and copies of the checkout to install from."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.parser import Parser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OURS = {"forge-compiler", "forge-compiler-runtime"}
STRANGER = "raise SystemExit('a stranger was imported')\n"


class Index:
    """Serves the wheels of a folder; ``asked`` has the names of the projects that were looked up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: set[str] = set()
        self.url = ""

    def offer(self, wheel: Path) -> None:
        """Adds ``wheel``."""
        page = self.folder / "simple" / canonicalize_name(wheel.name.split("-")[0]) / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a", encoding="utf-8") as stream:
            stream.write(f'<a href="{html.escape(wheel.name)}">{html.escape(wheel.name)}</a>\n')
        os.link(wheel, page.parent / wheel.name)

    def offer_stub(self, name: str, version: str, code: str = "") -> None:
        """Adds a wheel that has one module, whose text is ``code``."""
        project = name.replace("-", "_")
        info = f"{project}-{version}.dist-info"
        wheel = self.folder / f"{project}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{project}.py", code)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        self.offer(wheel)


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, index: Index, *arguments: object) -> None:
        self.index = index
        super().__init__(*arguments, directory=str(index.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.index.asked.add(canonicalize_name(self.path.split("/")[2]))
        super().do_GET()

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Index]:
    """An index in ``folder``, on which strangers have taken our names."""
    folder.mkdir()
    index = Index(folder)
    for name in OURS | {"forge", "forge-runtime"}:
        index.offer_stub(name, "99", STRANGER)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, index))
    index.url = f"http://127.0.0.1:{server.server_port}/simple/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()


def pip(*arguments: str | Path, environment: Mapping[str, str] | None = None, configured: bool = False) -> str:
    """Runs pip of this Python and returns what it prints; without ``configured``, no setting of this machine holds."""
    settings = {name: value for name, value in os.environ.items() if configured or not name.startswith("PIP_")}
    settings.pop("PYTHONPATH", None)
    if not configured:
        settings |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, env=settings | dict(environment or {}), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_checkout(to: Path) -> None:
    """Copies what belongs to the checkout, changes that are not committed included, and commits it all there."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=to, check=True)


def requirements(checkout: Path, folder: Path) -> list[Requirement]:
    """What the distribution requires when it is built from ``checkout``."""
    code = "import sys; from setuptools.build_meta import *; print(prepare_metadata_for_build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, folder], cwd=checkout, capture_output=True, text=True, check=True)
    text = (folder / done.stdout.split()[-1] / "METADATA").read_text()
    return [Requirement(line) for line in Parser().parsestr(text).get_all("Requires-Dist", [])]
