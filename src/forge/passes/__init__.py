"""Graph passes: one file, one pass."""
