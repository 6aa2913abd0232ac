"""Reductions over axes, windows and segments, and cumulative ones."""
