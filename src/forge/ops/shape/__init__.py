"""Operators that make, view, move or repeat elements by their position."""
