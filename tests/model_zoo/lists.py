"""What became of each architecture, in text files: torch's answer, and Forge's by two ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.model_zoo.ready import Ready

FOLDER = Path(__file__).parent
LIBRARIES = ("transformers", "torchvision", "timm")
WAYS = ("export", "compile")
SPEED = "speed"
"""The way that times, next to inductor, what is equal by the way ``compile``."""
EXPORTS, OK = "exports", "ok"
STATES = ("no class", "no model", "no eager", "no export", "random", "exports wrongly", EXPORTS)
"""What torch alone makes of an architecture. ``random``: two eager runs differ; ``exports wrongly``: torch's own run of what it
exports differs from the eager one, by more than Forge may. The rest of those that it exports are Forge's."""
NO_GRAPH = "no graph"
"""What Dynamo cannot capture as one graph, whatever the backend."""
TIMED = "timed"
"""Before `Speed`."""
OUTCOMES = (OK, TIMED, "wrong", "refused", "died", "timeout", NO_GRAPH)


@dataclass(frozen=True)
class Zoo:
    """The architectures of a library."""

    library: str

    def names(self) -> list[str]:
        return self._module().names()

    def ready(self, name: str) -> tuple[Ready | None, str]:
        """A model that runs, or the reason why there is none."""
        return self._module().ready(name)

    def _module(self) -> Architectures:
        import importlib

        module: Any = importlib.import_module(f"tests.model_zoo.{self.library}_models")
        return module

    def path(self, way: str = "") -> Path:
        return FOLDER / f"{self.library}{way and '-' + way}.txt"

    def read(self, way: str = "") -> dict[str, str]:
        """By name: torch's answer, or with a way Forge's; each with its reason."""
        if not self.path(way).exists():
            return {}
        lines = self.path(way).read_text(encoding="utf-8").splitlines()
        parts = [line.partition(": ") for line in lines if not line.startswith("#")]
        return {name: state for name, _, state in parts}

    def write(self, states: Mapping[str, str], way: str = "") -> None:
        command = f"python -m tests.model_zoo --update --library {self.library} --way {way or 'export'}"
        text = "".join(f"{name}: {state}\n" for name, state in sorted(states.items()))
        self.path(way).write_text(f"# Written by {command}\n{text}", encoding="utf-8")


def exports(states: Mapping[str, str]) -> list[str]:
    """The names that torch exports."""
    return [name for name, state in states.items() if state.partition(":")[0] == EXPORTS]


@dataclass(frozen=True)
class Speed:
    """Of ``torch.compile`` with Forge and with inductor: least milliseconds of a call, and seconds to the first result."""

    forge: float
    inductor: float
    eager: float
    forge_first: float
    inductor_first: float

    def __str__(self) -> str:
        calls = f"{self.forge:.3f} {self.inductor:.3f} {self.eager:.3f}"
        return f"{TIMED}: {calls} ms, {self.forge_first:.1f} {self.inductor_first:.1f} s"

    @classmethod
    def of(cls, text: str) -> Speed:
        """What ``str`` made a text of."""
        calls, firsts = text.removeprefix(f"{TIMED}: ").split(", ")
        return cls(*map(float, calls.split()[:3]), *map(float, firsts.split()[:2]))


class Architectures:
    """The module of a library."""

    names: Callable[[], list[str]]
    ready: Callable[[str], tuple[Ready | None, str]]
