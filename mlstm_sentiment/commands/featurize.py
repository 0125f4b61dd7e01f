"""Write the features of texts, float32 [N, F]: by default, the final cell state of each text.

mlstm-sentiment featurize --input texts.csv --output features.npy
mlstm-sentiment featurize --input texts.csv --output unit7.npy --pooling mean --units 7
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ..bounds import Argument
from ..errors import InputError
from ..reading.inputs import TableOptions
from ..reading.progress import ProgressBar
from ..reading.rows import Rows
from ..reading.source import STREAM, Shard, Source
from ..reading.texts import text_at, text_of
from .options import KINDS_HELP, TEXT, ModelOptions, ShardOption, Table, TextKey
from .program import prepare_output, say

if TYPE_CHECKING:
    from ..engine.features import TextFeatures

_IN_MEMORY = 1 << 28  # characters of texts held in memory; longer inputs are read in parts
_OF_A_TEXT = 128  # overhead of a text in memory, in characters
_FEATURES = Argument(group="feature")


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Write the features of texts, float32 [N, F]: by default, the final cell state of each one."""

    input: Annotated[str, Argument(group=TEXT, help=f"A file of texts: {KINDS_HELP}.")]
    output: Path
    """The .npy file to write, complete or not at all; rows are in input order."""
    text_key: TextKey = ()
    shard: ShardOption = field(default_factory=Shard)
    table: Table = field(default_factory=TableOptions)
    preset: Annotated[Literal["papers", "pooled"], _FEATURES] = "papers"
    """papers: the cell state after the last token; pooled: this and its mean, largest and smallest
    value over the text, better for a model of 1,024 units. The options below override the
    preset."""
    state: Annotated[Literal["cell", "hidden"] | None, _FEATURES] = None
    """Which half of the state; the papers take the cell. Default: the preset's."""
    pooling: Annotated[tuple[Literal["last", "mean", "max", "min"], ...] | None, _FEATURES] = None
    """last: the state after the last token; mean, max, min: over the states after all tokens,
    including those that the text profile adds around the text; several are concatenated. A token is
    a byte, or a subword token if the model has a vocabulary. Default: the preset's."""
    layers: Annotated[Literal["last", "all"] | tuple[int, ...], _FEATURES] = "last"
    """last, all, or numbers from 0, the lowest layer; several are concatenated."""
    tanh: Annotated[bool, _FEATURES] = False
    """Apply tanh to every state before pooling, as the text of Radford et al. says; their code does
    not."""
    units: Annotated[tuple[int, ...] | None, _FEATURES] = None
    """Which units of each layer, numbered from 0, in this order. Default: all."""


def _parts(rows: Rows) -> Iterator[list[str]]:
    """Yield the texts in order, as many at a time as are held in memory; a missing one as ""."""
    part, size = list[str](), 0
    for batch in rows.batches():
        for record in (row.record for row in batch):
            value = text_at(record, rows.key.keys, record.place)
            part.append(text_of(value, record.place) or "")
            size += len(part[-1]) + _OF_A_TEXT
        if size > _IN_MEMORY:
            yield part
            part, size = [], 0
    yield part


def run(options: Options) -> None:
    output = options.output
    if options.input == STREAM:
        raise InputError("--input -: featurize reads a file, not standard input; name one")
    if output.suffix != ".npy":
        raise InputError(f"--output {output}: the name must end in .npy")
    prepare_output(output, kind="features")
    options.shard.check_name(output)
    source = Source(options.input, options.text_key, options.table, shard=options.shard)
    rows = Rows(source, show_progress=True)
    count, blank = rows.count, 0

    from ..engine.features import TextFeatures, write_features
    from ..engine.kinds import FeatureKind, preset

    chosen = preset(options.preset, state=options.state, pooling=options.pooling)
    kind = FeatureKind(**chosen, layers=options.layers, tanh=options.tanh, units=options.units)
    loaded = options.load_model()
    shape = count, kind.size(loaded.architecture)  # refuses what the model lacks

    with ProgressBar("featurize") as progress:

        def features() -> "Iterator[TextFeatures]":
            nonlocal blank
            tokens = done = 0
            for part in _parts(rows):
                of_part = TextFeatures(loaded, list(map(loaded.encode, part)), kind)
                tokens, done = tokens + of_part.tokens, done + len(part)
                blank += sum(not text.strip() for text in part)
                progress.expect(tokens * count / done)
                yield of_part

        write_features(output, shape, features(), progress.advance)
    N, F = shape
    left_blank = f"; {blank:,} of them are empty or missing" if blank else ""
    say(f"{output}: {N:,} texts, {F:,} features{left_blank}")
