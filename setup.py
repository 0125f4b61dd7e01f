"""Builds the inference engine in C where the package is installed; all else is in pyproject.toml.

Without a C compiler the package installs all the same, and NumPy computes instead.
"""

import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("mlstm_sentiment/engine")
SOURCES = runpy.run_path(str(FOLDER / "sources.py"))  # the package itself is not installed yet


class BuildLibrary(build_ext):
    """Compiles a plain shared library, which is loaded by ctypes: it is no Python module."""

    def get_export_symbols(self, ext):
        """Return nothing: there is no function that starts a module."""
        return ext.export_symbols


setup(
    ext_modules=[
        Extension(
            "mlstm_sentiment.engine._compiled",
            [str(FOLDER / "source" / "engine.c")],
            depends=[str(path) for path in sorted((FOLDER / "source").glob("*.h"))],
            define_macros=[("SOURCES", f'"{SOURCES["digest_of_sources"]()}"')],
            extra_compile_args=list(SOURCES["OPTIONS"]),
            libraries=[] if sys.platform == "win32" else ["m"],
            py_limited_api=True,  # one build for every Python
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
