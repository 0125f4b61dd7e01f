"""Types of options that several commands have, each with the help that its --help shows."""

from typing import Annotated

from model.bounds import Argument
from model.reading.texts import LABEL_KEYS, TEXT_KEYS

Model = Annotated[
    str, Argument(help="A model directory, a run directory, or the name of a shipped model.")
]
Device = Annotated[
    str, Argument(help="Where it runs: cpu, cuda, cuda:1, mps, or auto: a GPU, if any.")
]
TextKey = Annotated[
    str | None,
    Argument(
        help=f"Key of the text. Default: the first present of {', '.join(TEXT_KEYS)}; else, in a "
        "table, the one column that is clearly prose."
    ),
]
LabelKey = Annotated[
    str | None,
    Argument(help=f"Key of the label. Default: the first present of {', '.join(LABEL_KEYS)}."),
]
