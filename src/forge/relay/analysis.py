"""Questions to expressions, by the names of Relay."""

from forge.relay.expr import free_vars

__all__ = ["free_vars"]
