"""The operators, a folder for each family. Importing this package registers those of the core, and declares those of the
optional families.
"""

from importlib import import_module
from pkgutil import iter_modules

from forge.ir.op import Accuracy, Kind, NoAttrs, Operand, Trait, register_lazily
from forge.ops.core.op import Op, register

# Families that the core works without. Each has a table ``OPERATORS``: the modules that register its operators, when one is first
# used, with their names. Where such a folder is deleted, its operators are unknown.
OPTIONAL_FAMILIES = ("classical", "programs", "special", "text")

for _family in iter_modules(__path__, f"{__name__}."):
    _package = import_module(_family.name)
    if _family.name.rpartition(".")[2] in OPTIONAL_FAMILIES:
        register_lazily(_package.OPERATORS)
        continue
    for _module in iter_modules(_package.__path__, f"{_package.__name__}."):
        import_module(_module.name)

__all__ = ["Accuracy", "Kind", "NoAttrs", "Op", "Operand", "Trait", "register"]
