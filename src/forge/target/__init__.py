"""Target machines: CPU features, vector widths, cache sizes, tags."""

from forge.target.tags import TAGS
from forge.target.target import Target, TargetLike

__all__ = ["TAGS", "Target", "TargetLike"]
