"""Executors, where Relay has them."""

from forge.executor import create_executor

__all__ = ["create_executor"]
