"""Where numbers go wrong: comparison of models layer by layer, and the search for the stage or kernel that is to blame."""

from forge.numerics.bisection import Bisection, after_stage, bisect, compiled_as_is
from forge.numerics.comparison import Comparison, Row, compare
from forge.numerics.differences import Difference, difference
from forge.numerics.reproducer import Reproducer, read_inputs

__all__ = [
    "Bisection", "Comparison", "Difference", "Reproducer", "Row", "after_stage", "bisect", "compare", "compiled_as_is",
    "difference", "read_inputs",
]
