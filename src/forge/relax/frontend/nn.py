"""``forge.nn`` by Relax's path: ``from forge.relax.frontend import nn``."""

from forge.nn import *  # noqa: F403
from forge.nn import __all__, op, spec  # noqa: F401
