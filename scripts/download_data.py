"""Get published data: sst, imdb, or a category of Amazon reviews.

python scripts/download_data.py sst
python scripts/download_data.py imdb
python scripts/download_data.py amazon:Electronics --release 2018
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

import command

from data_utils.download.addresses import find_dataset
from data_utils.download.downloads import download_dataset


@dataclass(frozen=True)
class Options:
    """Get published data: sst, imdb, or a category of Amazon reviews.

    No other command asks the network. What was cut off goes on where it stopped. A file that was
    saved by hand under the name that an error message gives is checked and used as it is.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """sst, imdb, or amazon:<category>, such as amazon:Books."""
    release: Literal["2014", "2018", "2023"] = "2014"
    """Release of the Amazon reviews; that of 2014 is what the papers trained on."""
    output: Path = Path("data")
    """Folder in which a folder for the data set is made."""
    mirror: str | None = None
    """Address of another folder that has the same files, for when the known one is dead."""


def main() -> None:
    options = command.parse(Options, __doc__)
    dataset = find_dataset(options.name, options.release, options.mirror)
    folder = options.output / dataset.name
    print(f"{options.name} from {dataset.files[0].url}\n{dataset.terms}\nMore: {dataset.page}")
    for path in download_dataset(dataset, folder):
        print(f"{path}: {path.stat().st_size:,} bytes")
        if dataset.convert is not None:
            for part, count in dataset.convert(path, folder).items():
                print(f"{part}: {count:,} reviews")


if __name__ == "__main__":
    command.run(main)
