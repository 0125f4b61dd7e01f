"""Download published data: sst, imdb, or a category of Amazon reviews.

python scripts/download_data.py sst
python scripts/download_data.py imdb
python scripts/download_data.py amazon:Electronics --release 2018
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import command

from data_utils.published_sets.registry import download_dataset, find_dataset
from mlstm_sentiment.bounds import Argument


@dataclass(frozen=True)
class Options:
    """Download published data: sst, imdb, or a category of Amazon reviews.

    An interrupted download starts over. A file that you saved by hand, under the name that an error
    message gives, is checked and used.
    """

    name: Annotated[str, Argument(positional=True, metavar="NAME")]
    """sst, imdb, or amazon:<category>, such as amazon:Books."""
    release: Literal["2014", "2018", "2023"] | None = None
    """Release of the Amazon reviews. Default: 2014, on which the papers trained."""
    output: Path = Path("data")
    """Folder in which to make the data set's own folder."""


def main() -> None:
    options = command.parse(Options, __doc__)
    dataset = find_dataset(options.name, options.release)
    folder = options.output / dataset.name
    print(f"{options.name} from {dataset.files[0].url}\n{dataset.terms}\nMore: {dataset.page}")
    for path in download_dataset(dataset, folder):
        command.say(f"{path}: {path.stat().st_size:,} bytes")
        if dataset.convert is not None:
            for part, count in dataset.convert(path, folder).items():
                command.say(f"{part}: {count:,} reviews")


if __name__ == "__main__":
    command.run(main)
