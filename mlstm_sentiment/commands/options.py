"""Options that several commands have, each with what its --help shows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ..bounds import Argument
from ..reading.inputs import TableOptions
from ..reading.source import Shard
from ..reading.texts import LABEL_KEYS

if TYPE_CHECKING:
    from ..engine.interface import TextModel

KINDS_HELP = (
    "CSV, TSV, Excel, Parquet, Feather, JSON or text (one a line), also as .gz, .bz2, .xz, .zst, "
    ".zip"
)
TEXT, MODEL = "text", "model"  # groups of the help
_MODEL = Argument(group=MODEL)

Model = Annotated[
    str,
    Argument(
        group=MODEL, help="A model directory, a run directory, or the name of a shipped model."
    ),
]
ClassifierFolder = Annotated[
    Path | None,
    Argument(
        group=MODEL,
        help="Folder of a classifier, or what transfer.py wrote. Default: the model's own, or "
        "transfer/ of its run.",
    ),
]
TextKey = Annotated[
    tuple[str, ...],
    Argument(
        group=TEXT,
        help="Column or key of the text, or several, whose texts are joined; review.text is a key "
        "in a key. Default: the one whose name and cells are those of texts; in doubt, the command "
        "asks.",
    ),
]
LabelKey = Annotated[
    str | None,
    Argument(
        group=TEXT,
        help=f"Column or key of the label. Default: the first present of {', '.join(LABEL_KEYS)}.",
    ),
]
By = Annotated[str | None, Argument(group=TEXT, help="Column to group the counts by.")]
ShardOption = Annotated[
    Shard,
    Argument(
        group=TEXT,
        metavar="i/n",
        help="Only rows i, i + n, i + 2 n, ...: for n commands on n machines (docs/cluster.md).",
    ),
]
Table = Annotated[TableOptions, Argument(is_flat=True, group="table")]
JsonOutput = Annotated[Path | None, Argument(help="The JSON file for the result.")]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model of a command, and how it is computed."""

    model: Model = "default"
    precision: Annotated[Literal["exact", "fast"], _MODEL] = "exact"
    """How products of the shipped models are rounded: exact, within a thousandth of fp32, or
    fast, and results change a little."""
    threads: Annotated[int | None, _MODEL] = None
    """Texts computed in parallel. Default: as many as there are cores for this process."""

    def load_model(self, name: str | None = None) -> "TextModel":
        """Load the model, or another one by its name or folder."""
        from ..engine.cores import usable_cores
        from ..engine.engine import Engine

        threads = usable_cores() if self.threads is None else self.threads
        return Engine.load(name or self.model, precision=self.precision, threads=threads)


@dataclass(frozen=True, kw_only=True)
class TextOptions(ModelOptions):
    """Texts, and the model with its classifier that reads them."""

    text: Annotated[tuple[str, ...], Argument(group=TEXT, repeated=True)] = ()
    """A text; may be repeated. One that begins with a dash: --text=-meh."""
    input: Annotated[
        str | None,
        Argument(
            group=TEXT,
            help=f"A file of texts: {KINDS_HELP}; - reads JSON lines or text from standard input, "
            "line by line.",
        ),
    ] = None
    text_key: TextKey = ()
    table: Table = field(default_factory=TableOptions)
    classifier: ClassifierFolder = None
