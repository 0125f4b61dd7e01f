"""Compilers in place of the user's: one that is quick, one that fails."""

import shlex

from model.fused import compilation


def quick_compiler(folder, before=""):
    """Write a compiler that does not optimise, which takes half the time; return its path.

    The slow tests compile as users do.
    """
    script = folder / "c++"
    script.write_text(f'#!/bin/sh\n{before}\nexec {shlex.join(compilation._compiler())} "$@" -O0\n')
    script.chmod(0o755)
    return script


def broken_compiler(folder):
    """Write a compiler that always fails; return its path."""
    script = folder / "c++"
    script.write_text("#!/bin/sh\necho 'window.cpp:1: error: unknown flag' >&2\nexit 1\n")
    script.chmod(0o755)
    return script
