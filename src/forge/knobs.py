"""The settings that come from the environment, all in one place. ``docs/reference/settings.md`` is generated from this list."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from forge.errors import OptionError


@dataclass(frozen=True)
class Knob:
    """An environment variable with its default and meaning."""

    name: str
    default: str
    meaning: str

    @property
    def text(self) -> str:
        return os.environ.get(self.name, self.default)

    def one_of(self, *expected: str) -> str:
        """Raises OptionError where the value is another one."""
        if self.text not in expected:
            raise OptionError(f"{self.name}: got {self.text!r}; expected {', '.join(expected[:-1])} or {expected[-1]}")
        return self.text

    @property
    def flag(self) -> bool:
        """Raises OptionError unless the value is 0 or 1."""
        return self.one_of("0", "1") == "1"

    @property
    def number(self) -> int:
        """Raises OptionError unless the value is a whole number."""
        if not self.text.isdigit():
            raise OptionError(f"{self.name}: got {self.text!r}; expected a whole number")
        return int(self.text)


def misspelt(environment: Iterable[str]) -> dict[str, str]:
    """Names that look like misspelt settings, each with the setting; a prefix alone says little, for other programs have it."""
    known = [knob.name for knob in KNOBS]
    unknown = [name for name in environment if name.upper().startswith("FORGE") and name not in known]
    if not unknown:
        return {}
    from difflib import get_close_matches

    near = {name: get_close_matches(name.upper(), known, 1, cutoff=0.85) for name in unknown}
    return {name: found[0] for name, found in near.items() if found}


@functools.cache
def check_names() -> None:
    """Warns, once in a process, of environment variables that `misspelt` finds."""
    for name, setting in misspelt(os.environ).items():
        logging.getLogger("forge").warning("%s: no such setting; did you mean %s", name, setting)


def user_folder(what: str, variable: str, default: str, advice: str) -> Path:
    """Forge's folder where an environment variable says that such files go, else at ``default`` in the home directory.

    Raises:
        OptionError: this user has no home directory, and the variable is not set.
    """
    base = os.environ.get(variable)
    try:
        return (Path(base) if base else Path.home() / default) / "forge"
    except RuntimeError as error:
        raise OptionError(f"{what}: this user has no home directory; set {advice}") from error


CACHE = Knob("FORGE_CACHE", "1", "0 turns the compile cache off; `objects` keeps what LLVM made, but no whole models")
CACHE_DIR = Knob("FORGE_CACHE_DIR", "", "folder of the compile cache; default: forge in the user's cache folder")
CACHE_LIMIT = Knob("FORGE_CACHE_LIMIT_MB", "4096", "size of the compile cache in MiB; entries that were not used for longest go")
COMPILE_PROCESSES = Knob("FORGE_COMPILE_PROCESSES", "", "processes that LLVM runs in; default: the CPUs that the process may use")
NUM_THREADS = Knob("FORGE_NUM_THREADS", "", "threads of the runtime; default: the CPUs that the process may use")
TUNING = Knob("FORGE_TUNING", "", "file of what `forge tune` measured; default: forge/tuning.sqlite in the user's data folder")
PASSWORD = Knob("FORGE_PASSWORD", "", "password of encrypted models for the command line; default: it asks")
VERIFY = Knob("FORGE_VERIFY", "0", "1 verifies a graph after each rule that rewrites it, for debugging")

KNOBS = (CACHE, CACHE_DIR, CACHE_LIMIT, COMPILE_PROCESSES, NUM_THREADS, TUNING, PASSWORD, VERIFY)


def cache_folder() -> Path:
    """Where compiled models and what LLVM made are kept.

    Raises:
        OptionError: this user has no home directory, and nothing else is set.
    """
    if CACHE_DIR.text:
        return Path(CACHE_DIR.text)
    return user_folder("cache", "XDG_CACHE_HOME", ".cache", f"{CACHE_DIR.name} to a folder, or {CACHE.name}=0")


def keeps_models() -> bool:
    """Whether the compile cache keeps whole models. Raises OptionError where the setting has no meaning."""
    return CACHE.one_of("0", "1", "objects") == "1"


def keeps_objects() -> bool:
    """Whether the compile cache keeps what LLVM made. Raises OptionError where the setting has no meaning."""
    return CACHE.one_of("0", "1", "objects") != "0"
