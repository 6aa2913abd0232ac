"""``forge.nn`` by Relax's path: ``from forge.relax.frontend import nn``."""

from forge.nn import *  # noqa: F403
from forge.nn import __all__ as __all__
from forge.nn import op as op
from forge.nn import spec as spec
