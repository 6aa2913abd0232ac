"""Expressions, by the names of Relay."""

from forge.frontends.expressions import Expr, Function, Operators, Tuple, TupleWrapper, const, free_vars, module_of, op, var

__all__ = ["Expr", "Function", "Operators", "Tuple", "TupleWrapper", "const", "free_vars", "module_of", "op", "var"]
