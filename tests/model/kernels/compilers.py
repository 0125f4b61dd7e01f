"""Compilers in place of the user's: one that is quick, one that fails."""

import shlex
import subprocess

import pytest

from model.kernels import compilation


def output_of(source, folder, *options):
    """Compile a program that includes the headers of model/kernels; return the words it prints."""
    try:
        compiler = compilation._compiler()
    except RuntimeError:
        pytest.skip("no C++ compiler")
    options = ("-std=c++20", "-pthread", f"-I{compilation.FOLDER}", *options)
    command = [*compiler, *options, "-x", "c++", "-", "-o", folder / "program"]
    subprocess.run(command, input=source, text=True, check=True)
    run = subprocess.run(
        [folder / "program"], capture_output=True, text=True, check=True, timeout=60
    )
    return run.stdout.split()


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
