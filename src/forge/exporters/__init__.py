"""Exporters: one folder per format that modules of the graph IR can be written in."""
