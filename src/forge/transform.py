"""How models are compiled: ``PassContext``."""

from forge.driver.pass_context import PassContext

__all__ = ["PassContext"]
