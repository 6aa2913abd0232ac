"""The public name of ``forge.ir.text.parser``."""

from forge.ir.text.parser import MissingConstant, UnknownOperator, has_metadata, parse_module

__all__ = ["MissingConstant", "UnknownOperator", "has_metadata", "parse_module"]
