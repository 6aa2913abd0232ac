"""``python -m forge_runtime info PATH``: what is in a compiled model, without loading it."""

from __future__ import annotations

import argparse
import getpass
import json
import sys

from forge_runtime.artifact import read_metadata
from forge_runtime.errors import ForgeRuntimeError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m forge_runtime", description="Looks into compiled models.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="print the metadata of a compiled model as JSON")
    info.add_argument("path", help="modelLibrary.so or its directory")
    info.add_argument("--key", help="key file of an encrypted model; its password is asked for")
    options = parser.parse_args(arguments)
    password = getpass.getpass("Password: ") if options.key else None
    try:
        sys.stdout.write(json.dumps(read_metadata(options.path, password, options.key), indent=2) + "\n")
    except ForgeRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
