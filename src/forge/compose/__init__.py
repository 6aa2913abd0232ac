"""Compositions: what frontends and ``nn`` share that is built of operators and belongs to no format."""
