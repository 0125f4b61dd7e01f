"""Fuzzing: tables against Python's csv module, and files that are not ours.

python -m tests.fuzz tables 5000         # or vocabularies, folders, caches

Tries that many random inputs and prints how many were read rightly, refused, and read
wrongly; a traceback ends it. Vocabularies, folders and caches are changed at random: a vocabulary
must give back every text, no file of others may be lost, no changed library be loaded.
"""

import logging
import sys
import tempfile
from pathlib import Path

from tests.support.fuzzed_files import KINDS
from tests.support.fuzzed_tables import try_tables


def fuzz_kind(kind: str, inputs: int) -> None:
    """Print the counts of outcomes, and every input whose outcome is wrong."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = {**KINDS, "tables": try_tables}[kind](Path(folder), inputs)
    print(f"{inputs:,} inputs: {dict(counts)}, tracebacks: 0")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    fuzz_kind(sys.argv[1], int(sys.argv[2]))
