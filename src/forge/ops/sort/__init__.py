"""Operators that order and search."""
