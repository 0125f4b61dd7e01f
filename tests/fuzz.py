"""Coverage-guided fuzzing of the readers with atheris (pip install atheris; Python 3.11 or 3.12).

python -m tests.fuzz -max_total_time=300 FOLDER

FOLDER holds the inputs to go on with; an empty one gets one of every kind. An input is its kind and
its bytes, see `attempts`; none may take more than 20 seconds or 4 GB (-timeout=, -rss_limit_mb=).
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["model", "data_utils"]):
    from tests.support.attempts import try_input, whole_inputs

WHOLE = whole_inputs()
NAMES = tuple(WHOLE)
SCRATCH = Path(tempfile.mkdtemp())
LIMITS = ("-timeout=20", "-rss_limit_mb=4096", "-max_len=4096")


def try_one(data: bytes) -> None:
    """Read one input: its kind, the size of blocks, its content."""
    if len(data) >= 2:
        try_input(SCRATCH, NAMES[data[0] % len(NAMES)], data[2:], 1 + data[1])


def main() -> None:
    """Fill an empty folder, and fuzz."""
    for folder in (Path(word) for word in sys.argv[1:] if not word.startswith("-")):
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            for kind, (name, content) in enumerate(WHOLE.items()):
                (folder / name).write_bytes(bytes([kind, 9]) + content)
    atheris.Setup([sys.argv[0], *LIMITS, *sys.argv[1:]], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
