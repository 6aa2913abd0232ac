"""What code is generated for: architecture, CPU features, vector width, registers, caches.

A ``Target`` is a value: two targets that are equal give the same code. ``Target.parse(str(target)) == target``.

Keys of a description, as ``llvm -key=value`` text, dictionary or JSON:

=============  ======================================================================================================
kind           "llvm", or what another backend serves; others are refused
mcpu           a CPU or level of the architecture (`forge.target.isa`); "native" or absent: this machine where it can run the code
mtune          the CPU whose rates cost models count with; absent: that of ``mcpu``
mattr          features to add or remove
mtriple        architecture and system; absent: ``x86_64-linux-gnu``. Code is generated for Linux on x86-64 and AArch64
mfloat-abi     "hard"; "soft" is refused
mabi           the only one of the architecture, "sysv" or "aapcs"; others are refused
host           a target of the same architecture; another is refused
num-cores      threads that schedules plan for
l1-cache ...   bytes of the data caches (also l2-cache, l3-cache)
keys device model runtime    recorded as annotations
libs system-lib              refused: kernels are all generated, and a library has one entry point
=============  ======================================================================================================
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union

from forge import dtypes
from forge.errors import TargetError
from forge.target import host
from forge.target.choices import Choices
from forge.target.costs import MachineModel
from forge.target.isa import ARCHITECTURES, Architecture, Isa
from forge.target.kinds import KINDS
from forge.target.tags import TAGS

TargetLike = Union["Target", str, Mapping[str, Any]]

_LINUX = re.compile(r"\w+(-\w+)?-linux[\d.]*(-(gnu|musl|android)[\d.]*)?")
"""Triples whose object files are ELF of the architecture's usual size of pointers, for Linux."""

_DEFAULT_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 16 << 20}
_CACHE_KEYS = {"l1-cache": 1, "l2-cache": 2, "l3-cache": 3}
_KEYS = ("kind", "keys", "device", "libs", "system-lib", "mcpu", "mtune", "model", "runtime", "mtriple", "mattr", "mfloat-abi",
         "mabi", "host", "num-cores", *_CACHE_KEYS)
_FLAG_KEYS = frozenset({"system-lib"})


@dataclass(frozen=True)
class Target:
    """A CPU to generate code for.

    Attributes:
        kind: that of the backend which serves it: "llvm".
        triple: architecture, system and ABI.
        cpu: LLVM's name of the CPU or level.
        features: every feature the code may use, by LLVM's names, sorted.
        tune: the CPU whose rates cost models count with; "": that of ``cpu``.
        l1_cache, l2_cache, l3_cache: bytes of the data caches.
        num_cores: threads that schedules plan for.
        annotations: (key, value) pairs that change no code.
        choices: what was measured to be fast on it; no part of its description.
    """

    kind: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    l1_cache: int
    l2_cache: int
    l3_cache: int
    num_cores: int
    tune: str = ""
    annotations: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    choices: Choices = field(default=Choices(), repr=False)

    @staticmethod
    def parse(target: TargetLike = "llvm") -> Target:
        """A target from text, a dictionary, JSON, a tag of ``TAGS`` or a target.

        Raises:
            TargetError: unknown kind, key, CPU, feature or tag, or a key that cannot be honoured.
        """
        if isinstance(target, Target):
            return target
        return _from_keys(_read_keys(target))

    @cached_property
    def architecture(self) -> Architecture:
        """That of the triple."""
        return _architecture(self.triple)

    @property
    def arch(self) -> str:
        """LLVM's name of the architecture."""
        return self.architecture.name

    @cached_property
    def isa(self) -> Isa:
        """What its instructions can do."""
        return self.architecture.describe(self.features)

    @cached_property
    def vector_bits(self) -> int:
        """Bits of the widest vector register."""
        return self.isa.vector_bits

    @property
    def vector_registers(self) -> int:
        return self.isa.vector_registers

    @property
    def costs(self) -> MachineModel:
        """Rates of one core, which the cost models of kernels count with."""
        return self.architecture.cpus[self.tune or self.cpu].rates

    @property
    def machine(self) -> str:
        """The CPU that it is tuned for, as measurements call it: the one that mtune or mcpu names, else this machine's."""
        named = self.tune or self.cpu
        return host.name() if named in self.architecture.levels and self.is_of_host else named

    @property
    def instruction_set(self) -> str:
        """All features in words, whichever CPU they were named by: ``x86-64-v3``, ``x86-64-v3 +avxvnni``."""
        level = self.architecture.level_of(self.features)
        base = self.architecture.canonical(self.architecture.cpus[level].features)
        return " ".join([level, *(f"+{feature}" for feature in self.features if feature not in base)])

    def lanes(self, dtype: str) -> int:
        """Elements of ``dtype`` in one vector register."""
        return self.vector_bits // (8 * dtypes.itemsize(dtype))

    def has(self, feature: str) -> bool:
        """Whether code may use ``feature``, which only the native instructions of an architecture are to ask."""
        return feature in self.features

    @property
    def machine_features(self) -> tuple[str, ...]:
        """The features that a machine must have for the code."""
        return tuple(feature for feature in self.features if feature not in self.architecture.emulated)

    def require_codegen(self) -> None:
        """Raises TargetError unless code can be linked for the target's system."""
        if not _LINUX.fullmatch(self.triple):
            raise TargetError(f"target {self}: no linker for the system of mtriple {self.triple!r}; expected Linux, such as "
                              f"{self.architecture.triple}; leave mtriple out, or name a Linux system")

    @property
    def is_of_host(self) -> bool:
        """Whether this machine's architecture is the target's."""
        return self.architecture is host.architecture()

    def missing_on_host(self) -> tuple[str, ...]:
        """Features of the target that this machine's CPU lacks."""
        return tuple(sorted(set(self.machine_features) - set(host.features()))) if self.is_of_host else self.features

    def to_dict(self) -> dict[str, Any]:
        """The description that ``parse`` reads back to an equal target."""
        described: dict[str, Any] = {"kind": self.kind, "mtriple": self.triple, "mcpu": self.cpu}
        base = set(self.architecture.canonical(self.architecture.cpus[self.cpu].features))
        described["mtune"] = self.tune
        described["mattr"] = [*(f"-{f}" for f in sorted(base - set(self.features))),
                              *(f"+{f}" for f in self.features if f not in base)]
        described |= {"l1-cache": self.l1_cache, "l2-cache": self.l2_cache, "l3-cache": self.l3_cache}
        described |= {"num-cores": self.num_cores, **dict(self.annotations)}
        return described

    def __str__(self) -> str:
        items = [(key, value) for key, value in self.to_dict().items() if key != "kind" and value not in ([], "")]
        words = (f"-{key}={','.join(value) if isinstance(value, list) else value}" for key, value in items)
        return shlex.join([self.kind, *words])


def _read_keys(target: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(target, Mapping):
        return dict(target)
    if not isinstance(target, str) or not target.strip():
        raise TargetError(f"target: got {target!r}; expected text such as 'llvm -mcpu=x86-64-v3', a dictionary or a Target")
    text = target.strip()
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise TargetError(f"target: not valid JSON: {error}; got {text!r}") from error
    if text in TAGS:
        return dict(TAGS[text])
    return _read_options(text)


def _read_options(text: str) -> dict[str, Any]:
    try:
        kind, *words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target: {error}; got {text!r}") from error
    if "/" in kind:
        raise TargetError(f"target: unknown tag {kind!r}; expected one of {', '.join(TAGS)}")
    keys: dict[str, Any] = {"kind": kind}
    while words:
        word = words.pop(0)
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            raise TargetError(f"target: unexpected {word!r} in {text!r}; expected '-key=value'")
        if not has_value and name not in _FLAG_KEYS:
            if not words:
                raise TargetError(f"target: key {name!r} has no value in {text!r}")
            value = words.pop(0)
        keys[name] = value if has_value or name not in _FLAG_KEYS else True
    return keys


def _from_keys(keys: dict[str, Any]) -> Target:
    unknown = [key for key in keys if key not in _KEYS]
    if unknown:
        raise TargetError(f"target: unknown key {', '.join(map(repr, unknown))}; expected: {', '.join(_KEYS)}")
    kind = keys.get("kind")
    if kind not in KINDS:
        raise TargetError(f"target: kind {kind!r} is not supported; expected {' or '.join(map(repr, sorted(KINDS)))}")
    triple = str(keys.get("mtriple") or host.architecture().triple)
    architecture = _architecture(triple)
    _refuse_unsupported(keys, architecture)
    attributes = _as_list(keys.get("mattr"), "mattr")
    cpu, features, is_host = _resolve_cpu(str(keys.get("mcpu") or ""), attributes, architecture)
    tune = str(keys.get("mtune") or (host.cpu() if is_host else ""))
    if tune:
        architecture.cpu(tune, "mtune")
    caches = _caches(keys, is_host)
    _check_host(keys, architecture)
    cores = _positive(keys["num-cores"], "num-cores") if "num-cores" in keys else len(os.sched_getaffinity(0))
    return Target(kind, triple, cpu, features, caches[1], caches[2], caches[3], cores, "" if tune == cpu else tune,
                  _annotations(keys))


def _architecture(triple: str) -> Architecture:
    name = triple.partition("-")[0]
    for known in ARCHITECTURES:
        if name in known.names:
            return known
    raise TargetError(f"target: mtriple {triple!r}: no code generator for architecture {name!r}; "
                      f"expected one of {', '.join(known.triple for known in ARCHITECTURES)}")


def _refuse_unsupported(keys: dict[str, Any], architecture: Architecture) -> None:
    if _as_list(keys.get("libs"), "libs"):
        raise TargetError(f"target: libs {keys['libs']!r} is not supported; Forge generates every kernel; leave 'libs' out")
    if keys.get("system-lib") not in (None, False, 0, "0", "false", "False"):
        raise TargetError("target: system-lib is not supported; a compiled library has the one entry point forge_model_get; "
                          "leave 'system-lib' out")
    for key, expected in (("mfloat-abi", "hard"), ("mabi", architecture.abi)):
        if keys.get(key) not in (None, "", expected):
            raise TargetError(f"target: {key} {keys[key]!r} is not supported; expected {expected!r}")


def _as_list(value: Any, key: str) -> list[str]:
    if value is None or value == "":
        return []
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise TargetError(f"target: {key} is {value!r}; expected a list of strings")
    return [item.strip() for item in items]


def _resolve_cpu(cpu: str, attributes: list[str], architecture: Architecture) -> tuple[str, tuple[str, ...], bool]:
    """LLVM's name of the CPU, its features, and whether it is this machine's; of another architecture: the weakest CPU."""
    is_host = cpu in ("", "native", "host") and architecture is host.architecture()
    if is_host:
        base = host.features()
        cpu = architecture.level_of(base)
    elif cpu in ("native", "host"):
        raise TargetError(f"target: mcpu {cpu!r} is {host.architecture().name}, mtriple is of {architecture.name}; "
                          f"expected one of {', '.join(architecture.cpus)}")
    else:
        cpu = cpu or architecture.levels[0]
        base = architecture.cpu(cpu).features
    return cpu, architecture.apply_attributes(base, attributes), is_host


def _caches(keys: dict[str, Any], is_host: bool) -> dict[int, int]:
    caches = _DEFAULT_CACHES | (host.cache_sizes() if is_host else {})
    for key, level in _CACHE_KEYS.items():
        if key in keys:
            caches[level] = _positive(keys[key], key)
    return caches


def _positive(value: Any, key: str) -> int:
    text = str(value)
    if not text.isdigit() or int(text) == 0:
        raise TargetError(f"target: {key} is {value!r}; expected a positive integer")
    return int(text)


def _check_host(keys: dict[str, Any], architecture: Architecture) -> None:
    if keys.get("host") is None:
        return
    given = Target.parse(keys["host"])
    if given.architecture is not architecture:
        raise TargetError(f"target: host is {given.arch}, the target is {architecture.name}; expected one architecture; "
                          "leave 'host' out")


def _annotations(keys: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    names = _as_list(keys.get("keys"), "keys")
    device = str(keys.get("device") or "")
    if device and device not in names:
        names.append(device)
    recorded = {"keys": ",".join(names), "device": device, "model": keys.get("model"), "runtime": keys.get("runtime")}
    return tuple((key, str(value)) for key, value in recorded.items() if value)
