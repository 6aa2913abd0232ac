"""Starting other programs."""

from __future__ import annotations

import errno

_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)
_NO_RESOURCES = (errno.EAGAIN, errno.ENOMEM)


def remedy(error: OSError, program: str) -> str:
    """What to do where a program could not be started; ``program`` is the advice for one that cannot be run at all."""
    if error.errno in _TOO_MANY_FILES:
        return "too few files may be open; close some, or raise the limit, as with 'ulimit -n 1024'"
    if error.errno in _NO_RESOURCES:
        return "the system has no memory or no processes left; end other programs, or raise the limits of this one"
    return program
