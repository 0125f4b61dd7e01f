"""Fuzzing: random tables against Python's csv module; a traceback ends it.

python -m tests.fuzz 5000

Prints how many were read rightly, refused, and read wrongly. Files that are not ours are changed at
random by tests with hypothesis: pytest --hypothesis-profile long -k damaged
"""

import logging
import sys
import tempfile
from pathlib import Path

from tests.support.fuzzed_tables import try_tables

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = try_tables(Path(folder), int(sys.argv[1]))
    print(f"{sys.argv[1]} inputs: {dict(counts)}, tracebacks: 0")
    print("\n".join(wrong))
    sys.exit(bool(wrong))
