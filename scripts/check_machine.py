"""Checks that this machine can build Forge: Python 3.11, its headers, venv and a C compiler.

Runs under any Python 3 (also one that is too old), prints what is missing and how to get it, and exits with 1.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig

MINIMUM = (3, 11)


def python_problem():  # type: () -> str | None
    """A Python that is too old."""
    if sys.version_info[:2] >= MINIMUM:
        return None
    found = ".".join(str(part) for part in sys.version_info[:3])
    return (
        "python: %s is Python %s; expected 3.11 or newer; install one and name it: make PYTHON=/path/to/python3.11 ..."
        % (sys.executable, found)
    )


def venv_problem():  # type: () -> str | None
    """Debian and Ubuntu ship the module that creates virtual environments apart from Python."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return None
    return (
        "python: the modules venv and ensurepip are missing; install the package python%d.%d-venv (Debian, Ubuntu)"
        % sys.version_info[:2]
    )


def header_problem(include_folder=None):  # type: (str | None) -> str | None
    """The runtime's binding is compiled against Python.h."""
    header = os.path.join(include_folder or sysconfig.get_paths()["include"], "Python.h")
    if os.path.exists(header):
        return None
    version = "%d.%d" % sys.version_info[:2]
    return (
        "python: %s does not exist; expected the headers of Python %s; "
        "install the package python%s-dev (Debian, Ubuntu) or python%s-devel (Fedora)"
        % (header, version, version, version)
    )


def compiler_problem(compiler=None):  # type: (str | None) -> str | None
    """The runtime, and every modelLibrary.so, is linked by the system's C compiler."""
    command = (compiler or os.environ.get("CC") or "cc").split()[0]
    if shutil.which(command):
        return None
    return (
        "C compiler: there is no program '%s'; expected gcc or clang; "
        "install the package gcc, or name a compiler: make CC=clang ..." % command
    )


def main():  # type: () -> int
    """Prints all problems; the exit status."""
    checks = (python_problem, compiler_problem) if python_problem() else (
        venv_problem, header_problem, compiler_problem,
    )
    problems = [problem for problem in (check() for check in checks) if problem]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
