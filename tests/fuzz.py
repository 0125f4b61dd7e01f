"""Fuzzing: tables against Python's csv module, files that are not ours, all kinds by coverage.

python -m tests.fuzz tables 5000         # or vocabularies, folders, caches
python -m tests.fuzz -max_total_time=300 FOLDER

The first tries that many random inputs and prints how many were read rightly, refused, and read
wrongly; a traceback ends it. Vocabularies, folders and caches are changed at random: a vocabulary
must give back every text, no file of others may be lost, no changed library be loaded. The second
needs atheris (pip install atheris; Python 3.11 or 3.12).
FOLDER holds the inputs to go on with; an empty one gets one of every kind. An input is its kind and
its bytes, see `attempts`; none may take more than 20 seconds or 4 GB (-timeout=, -rss_limit_mb=).
"""

import logging
import sys
import tempfile
from pathlib import Path

LIMITS = ("-timeout=20", "-rss_limit_mb=4096", "-max_len=4096")


def fuzz_kind(kind: str, inputs: int) -> None:
    """Print the counts of outcomes, and every input whose outcome is wrong."""
    from tests.support.fuzzed_files import KINDS
    from tests.support.fuzzed_tables import try_tables

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = {**KINDS, "tables": try_tables}[kind](Path(folder), inputs)
    print(f"{inputs:,} inputs: {dict(counts)}, tracebacks: 0")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


def fuzz_all() -> None:
    """Fill an empty folder, and fuzz."""
    import atheris

    with atheris.instrument_imports(include=["model", "data_utils"]):
        from tests.support.attempts import try_input, whole_inputs
    whole = whole_inputs()
    names, scratch = tuple(whole), Path(tempfile.mkdtemp())

    def try_one(data: bytes) -> None:
        """Read one input: its kind, the size of blocks, its content."""
        if len(data) >= 2:
            try_input(scratch, names[data[0] % len(names)], data[2:], 1 + data[1])

    for folder in (Path(word) for word in sys.argv[1:] if not word.startswith("-")):
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            for kind, (name, content) in enumerate(whole.items()):
                (folder / name).write_bytes(bytes([kind, 9]) + content)
    atheris.Setup([sys.argv[0], *LIMITS, *sys.argv[1:]], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("tables", "vocabularies", "folders", "caches"):
        fuzz_kind(sys.argv[1], int(sys.argv[2]))
    fuzz_all()
