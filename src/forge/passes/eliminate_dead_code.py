"""Removes nodes that no output needs: ``%1 = exp(%x); %2 = abs(%x); %2`` --> ``%2 = abs(%x); %2``."""

from __future__ import annotations

from forge.ir.edits.dead_code import remove_dead
from forge.passes.base import on_each_graph

run = on_each_graph(remove_dead)
