"""The importer of StableHLO, and of JAX."""
