"""Join what `classify` or `featurize` wrote for each shard of a file.

mlstm-sentiment join --output labelled.csv
"""

from dataclasses import dataclass
from pathlib import Path

from ..reading.shards import join
from .program import prepare_output


@dataclass(frozen=True, kw_only=True)
class Options:
    """Join what `classify` or `featurize` wrote for each shard of a file.

    The parts are next to it: NAME-1-of-8.csv to NAME-8-of-8.csv become NAME.csv.
    """

    output: Path
    """The .csv, .jsonl or .npy file to write, complete or not at all."""


def run(options: Options) -> None:
    """Join the parts."""
    prepare_output(options.output, kind="joined parts")
    parts, rows = join(options.output)
    print(f"{options.output}: {rows:,} rows of {parts} parts")
