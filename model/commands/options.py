"""Options that several commands have, each with what its --help shows."""

from pathlib import Path
from typing import Annotated

from ..bounds import Argument
from ..layers.config import Precision as PrecisionName
from ..reading.inputs import TableOptions
from ..reading.source import Shard
from ..reading.texts import LABEL_KEYS

KINDS_HELP = (
    "CSV, TSV, Excel, Parquet, Feather, JSON or text (one a line), also as .gz, .bz2, .xz, .zst, "
    ".zip, .tar.gz"
)
TEXT, MODEL = "text", "model"  # groups of the help

Model = Annotated[
    str,
    Argument(
        group=MODEL, help="A model directory, a run directory, or the name of a shipped model."
    ),
]
Device = Annotated[
    str,
    Argument(group=MODEL, help="Where it runs: cpu, cuda, cuda:1, mps, or auto: a GPU, if any."),
]
ClassifierFolder = Annotated[
    Path | None,
    Argument(
        group=MODEL,
        help="Folder of a classifier, or what transfer.py wrote. Default: the model's own, or "
        "transfer/ of its run.",
    ),
]
Precision = Annotated[
    PrecisionName,
    Argument(
        group=MODEL,
        help="Number format of the matrix products. bf16 is faster than fp32 with AVX512-BF16 or "
        "AMX, int8 with AVX512-VNNI or AMX; results change a little.",
    ),
]
BatchSize = Annotated[
    int,
    Argument(
        group=MODEL,
        help="Texts processed together: changes the speed, not the results.",
    ),
]
Texts = Annotated[
    tuple[str, ...],
    Argument(
        group=TEXT,
        repeated=True,
        help="A text; may be repeated. One that begins with a dash: --text=-meh.",
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
