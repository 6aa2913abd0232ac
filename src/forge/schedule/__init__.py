"""Generic loop nests for groups of tensor expressions: ``build``, and ``build_update`` where part of a tensor is written."""

from forge.schedule.build import build, build_update

__all__ = ["build", "build_update"]
