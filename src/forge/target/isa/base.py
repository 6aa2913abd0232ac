"""The records that describe architectures and instruction sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from forge.errors import TargetError
from forge.target.costs import SERVER_CORE, MachineModel


@dataclass(frozen=True)
class Dot:
    """Instructions that add, to each lane of a sum, the products of ``group`` neighbours of ``left`` and ``right``."""

    left: str
    right: str
    out: str
    group: int


@dataclass(frozen=True)
class Isa:
    """What the instructions of one target can do.

    Attributes:
        vector_bits: of the widest vector register.
        vector_registers: how many of these there are.
        fused_multiply_add: whether ``a * b + c`` is rounded once by one instruction.
        rounding: whether one instruction makes floats whole (floor, ceil, trunc, to nearest even).
        halves: whether one instruction converts between float16 and float32.
        masked_bytes: size of the smallest elements that masked loads and stores take; 0: there are none.
        permuted_lanes: numbers of lanes of 32 bits that one instruction permutes as a register says.
        permutes_pairs: whether one instruction takes lanes of any size out of two registers as a third says.
        shuffles_bytes: whether few instructions shuffle bytes of a whole vector in an order that is known.
        dots: instructions that add products of neighbours.
        tiles: dtypes of the left operand of products of tile registers.
        notable: features that decide how fast integers and short floats are, for reports.
    """

    vector_bits: int
    vector_registers: int
    fused_multiply_add: bool
    rounding: bool
    halves: bool
    masked_bytes: int
    permuted_lanes: frozenset[int]
    permutes_pairs: bool
    shuffles_bytes: bool
    dots: tuple[Dot, ...]
    tiles: frozenset[str] = frozenset()
    notable: tuple[str, ...] = ()

    def dot(self, left: str, right: str) -> Dot | None:
        """The instruction that adds products of these types, that of the largest groups; None where there is none."""
        found = [dot for dot in self.dots if (dot.left, dot.right) == (left, right)]
        return max(found, key=lambda dot: dot.group, default=None)

    def has_masks(self, sizes: Iterable[int]) -> bool:
        """Whether masked loads and stores of elements of these sizes (bytes) are single instructions."""
        return self.masked_bytes > 0 and all(size >= self.masked_bytes for size in sizes)


@dataclass(frozen=True)
class Cpu:
    """A CPU that ``-mcpu`` or ``-mtune`` may name: its features, and the rates of one of its cores."""

    features: tuple[str, ...]
    rates: MachineModel = SERVER_CORE


@dataclass(frozen=True)
class Architecture:
    """A family of CPUs that run one another's code, but for features.

    Attributes:
        names: first components of the triples that mean it; the first is LLVM's.
        triple: where ``-mtriple`` is absent.
        data_layout: as LLVM writes it.
        abi: the calling convention, as ``-mabi`` names it.
        pointer_bits: of an address.
        page: the largest size of a page (bytes) that a machine may have.
        elf_machine: its number in ELF files.
        baseline: features of every CPU.
        cpus: by LLVM's names.
        levels: names of ``cpus`` that stand for many CPUs, weakest first.
        requires: what a feature needs others for.
        ignored: features that are accepted, and change nothing that is compiled.
        describe: the instruction set of sorted features.
        emulated: features that only ``-mattr`` gives, and that code calls functions for.
        refused: features that the system keeps from this process.
        host_features, host_cpu: the features and the name ("": unknown) of a machine with this text in Linux's cpuinfo.
    """

    names: tuple[str, ...]
    triple: str
    data_layout: str
    abi: str
    pointer_bits: int
    page: int
    elf_machine: int
    baseline: tuple[str, ...]
    cpus: Mapping[str, Cpu]
    levels: tuple[str, ...]
    requires: Mapping[str, tuple[str, ...]]
    ignored: frozenset[str]
    describe: Callable[[tuple[str, ...]], Isa]
    host_features: Callable[[str], tuple[str, ...]]
    host_cpu: Callable[[str], str]
    emulated: frozenset[str] = frozenset()
    refused: Callable[[], frozenset[str]] = frozenset

    @property
    def name(self) -> str:
        """LLVM's name of the architecture."""
        return self.names[0]

    @property
    def known(self) -> frozenset[str]:
        """Every feature that Forge can use or require."""
        return frozenset(feature for cpu in self.cpus.values() for feature in cpu.features) | self.emulated

    def canonical(self, features: Iterable[str]) -> tuple[str, ...]:
        """Sorted, with everything the features require."""
        found: set[str] = set()
        pending = [*features, *self.baseline]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.requires.get(name, ()))
        return tuple(sorted(found))

    def apply_attributes(self, features: Iterable[str], attributes: Iterable[str]) -> tuple[str, ...]:
        """``features`` after LLVM attributes: ``+feature`` with what it requires, or ``-feature`` and what needs it.

        Raises:
            TargetError: an attribute without sign, or that names no feature of the architecture.
        """
        current = set(self.canonical(features))
        for attribute in attributes:
            sign, name = attribute[:1], attribute[1:]
            if sign not in "+-" or not name:
                raise TargetError(f"target: mattr {attribute!r}; expected '+feature' or '-feature'")
            if name in self.ignored:
                continue
            if name not in self.known:
                raise TargetError(f"target: mattr {attribute!r}; no such {self._text} feature; "
                                  f"expected one of {', '.join(sorted(self.known))}")
            current = set(self.canonical(current | {name})) if sign == "+" else self._without(current, name)
        return self.canonical(current)

    def _without(self, features: set[str], name: str) -> set[str]:
        return {f for f in features if name not in self.canonical([f]) or f in self.baseline}

    @property
    def _text(self) -> str:
        return self.name.replace("_", "-")

    def cpu(self, name: str, key: str = "mcpu") -> Cpu:
        """The CPU of this name, which was given as ``key``.

        Raises:
            TargetError: there is none.
        """
        found = self.cpus.get(name)
        if found is None:
            raise TargetError(f"target: unknown {key} {name!r}; expected one of {', '.join(self.cpus)}")
        return found

    def level_of(self, features: Iterable[str]) -> str:
        """The strongest level whose features are all there."""
        have = set(features)
        return [name for name in self.levels if have.issuperset(self.cpus[name].features)][-1]


def first_fields(cpuinfo: str) -> dict[str, str]:
    """What Linux's cpuinfo says of the first CPU, by key."""
    found: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return found
