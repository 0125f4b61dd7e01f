"""Print every result that this repository keeps, and the command that makes it again.

python -m experiments.all --list       # all results
python -m experiments.all --missing    # those that are absent, in part or whole, or dirty
"""

from collections import Counter
from dataclasses import dataclass

from configs import command
from experiments.results import RESULTS, Result
from model.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Print every kept result: its state, its minutes, its files, and the command.

    Replace the words in capitals in a command: DATA is the folder of the published sets, AMAZON a
    folder of reviews, CORPUS what scripts/prepare_corpus.py made of them, RUN a run of main.py,
    TEXTS the folder that experiments.default_model.texts wrote, WORK any folder.
    """

    list: bool = False
    """Print all results."""
    missing: bool = False
    """Print only results that are absent, incomplete, or measured with uncommitted changes."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.list == options.missing:
        raise InputError("give --list or --missing")
    shown = [r for r in RESULTS if options.list or r.state != "present"]
    for result in shown:
        print(described(result))
    counts = Counter(result.state for result in RESULTS)
    print(", ".join(f"{counts[state]} {state}" for state in sorted(counts)))


def described(result: Result) -> str:
    """Return two lines about a result."""
    minutes = "" if result.minutes is None else f", {result.minutes:.1f} minutes"
    made_at = f" at {', '.join(result.revisions)}" if result.revisions else ""
    return f"{result.state:<8} {result.files}{made_at}{minutes}\n         {result.command}"


if __name__ == "__main__":
    command.run(main)
