"""scripts/release.py refuses what is not a release, and makes one that installs and runs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import forge
from scripts import changelog, release
from tests.packaging.index import ROOT

LICENCE = "{name}-1.0.0.dist-info/licenses/LICENSE"
CHANGES = "# Changelog\n\n## Unreleased\n\n### Added\n\n- b.\n\n## 1.0.0 - 2027-01-31\n\n### Fixed\n\n- a.\n"


def wheels(folder: Path, **more: list[str]) -> list[Path]:
    """The two wheels of a version 1.0.0, with ``more`` files in them."""
    paths = []
    for name, package in (("forge_compiler", "forge"), ("forge_compiler_runtime", "forge_runtime")):
        paths.append(folder / f"{name}-1.0.0-py3-none-any.whl")
        with zipfile.ZipFile(paths[-1], "w") as archive:
            for entry in (f"{package}/__init__.py", *more.get(name, [LICENCE.format(name=name)])):
                archive.writestr(entry, "")
    return paths


def sdist(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"forge-1.0.0/{name}"), io.BytesIO())
    return path


def test_changes_that_are_not_committed_are_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    release.check_tree(tmp_path)
    (tmp_path / "new.py").touch()
    with pytest.raises(SystemExit, match=r"not committed; commit or stash them:\n\?\? new\.py"):
        release.check_tree(tmp_path)


def test_another_version_than_the_changelogs_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"newest version in CHANGELOG\.md is 1\.0\.0, src/forge/_version\.py has 1\.1\.0"):
        release.check_changelog(CHANGES, "1.1.0", dry_run=True)


def test_unreleased_entries_stop_a_release_but_no_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"1 unreleased entries; name the section after the next version"):
        release.check_changelog(CHANGES, "1.0.0", dry_run=False)
    release.check_changelog(CHANGES, "1.0.0", dry_run=True)
    assert "a release would be refused" in capsys.readouterr().out
    release.check_changelog(CHANGES.replace("- b.\n", ""), "1.0.0", dry_run=False)


def test_wheels_hold_their_packages_and_the_licence_only(tmp_path: Path) -> None:
    release.check_wheels(wheels(tmp_path), "1.0.0")
    with pytest.raises(SystemExit, match="'tests'"):
        release.check_wheels(wheels(tmp_path, forge_compiler=[LICENCE.format(name="forge_compiler"), "tests/a.py"]), "1.0.0")
    with pytest.raises(SystemExit, match=r"forge_compiler_runtime-.*: no .*LICENSE"):
        release.check_wheels(wheels(tmp_path, forge_compiler_runtime=[]), "1.0.0")
    with pytest.raises(SystemExit, match="expected"):
        release.check_wheels(wheels(tmp_path)[:1], "1.0.0")


def test_a_large_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "MAX_BYTES", 10)
    with pytest.raises(SystemExit, match="bytes, expected at most 10; look at what it holds"):
        release.check_wheels(wheels(tmp_path), "1.0.0")


def test_source_distributions_hold_no_tests(tmp_path: Path) -> None:
    release.check_sdist(sdist(tmp_path / "a.tar.gz", "setup.py", "src/forge/a.py", "runtime/setup.py"))
    with pytest.raises(SystemExit, match=r"\['runtime', 'src', 'tests'\]; expected runtime and src; see MANIFEST\.in"):
        release.check_sdist(sdist(tmp_path / "b.tar.gz", "src/forge/a.py", "runtime/setup.py", "tests/test_a.py"))


def test_checksums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("a")
    (tmp_path / "SUMS").write_text(release.checksums([tmp_path / "a b"]))
    subprocess.run(["sha256sum", "--check", "--strict", "SUMS"], cwd=tmp_path, check=True, capture_output=True)


def test_a_bill_of_materials_names_no_path() -> None:
    references = [{"url": "file:///here/a.whl"}, {"url": "https://there"}]
    bill = {"metadata": {"component": {"name": "forge-compiler"}}, "components": [{"externalReferences": references}]}
    released = json.loads(release.released_bill(json.dumps(bill), "1.0.0"))
    assert released["metadata"]["component"]["version"] == "1.0.0"
    assert released["components"] == [{"externalReferences": [{"url": "https://there"}]}]


def test_a_command_that_fails_shows_what_it_said() -> None:
    with pytest.raises(SystemExit, match=r"no_such_module failed; what a release needs: pip install '\.\[release\]'\n.*No"):
        release.run(sys.executable, "-m", "no_such_module")
    with pytest.raises(SystemExit, match=r"(?s)failed\nsaid\n"):
        release.run(sys.executable, "-c", "print('said'); raise SystemExit(1)")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_dry_run_makes_a_release_and_leaves_nothing(checkout: Path) -> None:
    for module in ("auditwheel", "build", "cyclonedx_py"):
        pytest.importorskip(module)
    done = subprocess.run([sys.executable, "-m", "scripts.release", "--dry-run"], cwd=checkout, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert changelog.newest((ROOT / "CHANGELOG.md").read_text()).text in done.stdout
    for kind in ("-py3-none-any.whl", ".cdx.json", ".tar.gz", "RELEASE_NOTES.md"):
        assert sum(line.endswith(kind) for line in done.stdout.splitlines()) == 2, kind  # among the files, and the checksums
    assert f"forge_compiler_runtime-{forge.__version__}-" in done.stdout
    assert not (checkout / "dist").exists()
    for command in (["git", "status", "--porcelain"], ["git", "tag"]):
        assert not subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout
