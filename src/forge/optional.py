"""Packages that Forge works with and does not need: what for, and versions that are tested."""

from __future__ import annotations

import importlib.metadata

from forge import errors

PURPOSES = {
    "torch": "forge.from_torch, torch.compile",
    "onnxruntime": "forge compare, forge bench --vs",
    "openvino": "forge bench --vs",
    "tensorflow": "sharing tensors",
    "jax": "sharing tensors",
    "matplotlib": "pictures of benchmarks",
    "ziglang": "libraries for other machines",
}

TESTED = {"torch": "2.13"}
"""The oldest version that the tests run with."""


def installed(package: str) -> str | None:
    """Its version, without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_untested(package: str, version: str) -> bool:
    """Whether this version is older than those that are tested."""
    return _numbers(version) < _numbers(TESTED[package])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def warn_if_untested(package: str, where: str) -> None:
    """Warns of an installed version that is older than those that are tested."""
    version = installed(package)
    if version is not None and is_untested(package, version):
        message = f"{where}: {package} {version} is older than {package} {TESTED[package]}, the oldest that is tested; update it"
        errors.warn(message)
