"""Operators on packed weights and blocked layouts, which passes make."""
