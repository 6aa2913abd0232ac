"""Functions of expressions, by the names of Relay."""

from forge.relay.expr import Function

__all__ = ["Function"]
