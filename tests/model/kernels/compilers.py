"""Compilers in place of the user's: one that is quick, one that fails."""

import shlex
import subprocess

import pytest

from mlstm_sentiment.files.compiled_code import CXX
from model.kernels.compilation import FOLDER


def output_of(source, folder, *options):
    """Compile a program that includes the headers of model/kernels; return the words it prints."""
    try:
        compiler = CXX.command()
    except RuntimeError:
        pytest.skip("no C++ compiler")
    options = ("-std=c++20", "-pthread", f"-I{FOLDER}", *options)
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
    script.write_text(f'#!/bin/sh\n{before}\nexec {shlex.join(CXX.command())} "$@" -O0\n')
    script.chmod(0o755)
    return script


def broken_compiler(folder):
    """Write a compiler that always fails; return its path."""
    script = folder / "c++"
    script.write_text("#!/bin/sh\necho 'window.cpp:1: error: unknown flag' >&2\nexit 1\n")
    script.chmod(0o755)
    return script
