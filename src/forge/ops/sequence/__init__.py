"""Sequences and optional values."""
