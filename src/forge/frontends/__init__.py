"""Importers, one package for each model format. A package imports its framework only when it is used."""
