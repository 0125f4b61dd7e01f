"""Compiles the engine's C in a checkout, once for this machine; an installed package has it."""

import hashlib
import os
import platform
import shlex
import shutil
from pathlib import Path

from ..files.compiled_code import cached_library
from .sources import OPTIONS, SOURCE, digest_of_sources


def compiled(extra: tuple[str, ...] = ()) -> Path:
    """Return the library, compiled now unless the user's cache has it.

    extra: more options for the compiler. Raises one of the ERRORS of `compiled_code`.
    """
    command = [*_compiler(), *OPTIONS, "-shared", f'-DSOURCES="{digest_of_sources()}"', *extra]
    system = [platform.machine(), *platform.libc_ver()]  # since machines may share a home
    key = hashlib.sha256("\0".join([*command, *system]).encode()).hexdigest()[:16]
    return cached_library(f"engine-{key}.so", lambda: [*command, str(SOURCE / "engine.c"), "-lm"])


def _compiler() -> list[str]:
    """Return the words of CC, or the path of a C compiler."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for words in (chosen, ["cc"], ["gcc"], ["clang"]):
        if words and (path := shutil.which(words[0])):
            return [path, *words[1:]]
    raise RuntimeError("no C compiler")
