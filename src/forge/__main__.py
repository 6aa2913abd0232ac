"""``python -m forge``."""

from forge.cli import run_main

run_main()
