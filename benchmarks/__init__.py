"""Benchmark models and the comparison of Forge with its peers. Not part of the installed package."""
