"""Print every result that this repository keeps, and the command that makes it again.

python -m experiments.all --list       # all results
python -m experiments.all --missing    # those that are absent, in part or whole, or dirty
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs import command
from experiments.results import HERE, RESULTS, Kept, Result, kept_results
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


def main(
    arguments: Sequence[str] | None = None,
    results: Sequence[Result] = RESULTS,
    folder: Path = HERE,
) -> None:
    """Print some results with their files below a folder; by default those of experiments/."""
    options = command.parse(Options, __doc__, arguments=arguments)
    if options.list == options.missing:
        raise InputError("give --list or --missing")
    found = list(kept_results(results, folder))
    for kept in found:
        if options.list or kept.state != "present":
            print(described(kept))
    counts = Counter(kept.state for kept in found)
    print(", ".join(f"{counts[state]} {state}" for state in sorted(counts)))


def described(kept: Kept) -> str:
    """Return two lines about a result."""
    minutes = "" if kept.minutes is None else f", {kept.minutes:.1f} minutes"
    made_at = f" at {', '.join(kept.revisions)}" if kept.revisions else ""
    files, line = kept.result.files, kept.result.command
    return f"{kept.state:<8} {files}{made_at}{minutes}\n         {line}"


if __name__ == "__main__":
    command.run(main)
