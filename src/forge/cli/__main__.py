"""``python -m forge.cli``."""

from forge.cli import run_main

run_main()
