"""Write the features of texts, float32 [N, F]: by default, the final cell state of each text.

mlstm-sentiment featurize --input texts.csv --output features.npy
mlstm-sentiment featurize --input texts.csv --output unit7.npy --pooling mean --units 7
"""

import io
from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..files.storage import is_stream, one_at_a_time, path_in_oserrors, refusal
from ..reading.inputs import TableOptions, as_input
from ..reading.progress import ProgressBar
from ..reading.records import read_records
from ..reading.texts import TEXT_KEYS, KeyChooser, read_text
from .command_line import Parser, add_input, add_model, add_precision, add_reading, add_shard
from .program import prepare_output

if TYPE_CHECKING:
    from ..inference.feature_files import LongReading, Reading

IN_MEMORY = 1 << 28  # characters of texts held in memory; longer inputs are read in parts
OF_A_TEXT = 128  # overhead of a text in memory, in characters


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_model(parser)
    add_input(parser, required=True)
    parser.add_argument(
        "--output", type=Path, required=True, help="the .npy file to write; rows are in input order"
    )
    add_reading(parser)
    add_shard(parser)
    add_kind(parser)
    add_precision(parser)
    parser.add_argument(
        "--batch-size",
        type=int,
        default=128,
        help="texts processed together; it changes the speed, not the features",
    )


def add_kind(parser: Parser) -> None:
    """Add the options that choose the features; see model/inference/features.py."""
    parser.add_argument(
        "--preset",
        choices=("papers", "pooled"),
        default="papers",
        help="papers: the cell state after the last token; pooled: this and its mean, largest and "
        "smallest value over the text, better for a model of 1,024 units. The options below "
        "override the preset",
    )
    parser.add_argument(
        "--state",
        choices=("cell", "hidden"),
        help="which half of the state; the papers take the cell (default: the preset's)",
    )
    parser.add_argument(
        "--pooling",
        nargs="+",
        choices=("last", "mean", "max", "min"),
        help="last: the state after the last token; mean, max, min: over the states after all "
        "tokens, including those that the text profile adds around the text; several are "
        "concatenated. A token is a byte, or a subword token if the model has a vocabulary "
        "(default: the preset's)",
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        type=_layer,
        default=["last"],
        help="last, all, or numbers from 0, the lowest layer; several are concatenated",
    )
    parser.add_argument(
        "--tanh",
        action=BooleanOptionalAction,
        default=False,
        help="apply tanh to every state before pooling, as the text of Radford et al. says; "
        "their code does not",
    )
    parser.add_argument(
        "--units",
        nargs="+",
        type=int,
        help="which units of each layer, numbered from 0, in this order (default: all)",
    )


def _layer(word: str) -> str | int:
    if word in ("last", "all"):
        return word
    if not word.isdecimal():
        raise ArgumentTypeError(f"{word!r} is neither last, nor all, nor a number from 0")
    return int(word)


class Texts:
    """The texts of an input: in memory if they are few, else read again a part at a time."""

    def __init__(self, options: Namespace):
        """Read all of them once; InputError for what cannot be read."""
        self._options, self._key = options, options.text_key
        self.count = self.blank = 0
        self.few: list[str] | None = []
        is_file, size = Path(options.input).is_file(), 0
        key = KeyChooser(options.text_key, TEXT_KEYS, "--text-key")
        for text in self._read(key):
            self.count += 1
            self.blank += not text.strip()
            size += len(text) + OF_A_TEXT
            if size > IN_MEMORY and is_file:  # a pipe is not read twice
                self.few = None
            if self.few is not None:
                self.few.append(text)
        key.conclude(options.input)
        self._key = key.key

    def parts(self) -> Iterator[list[str]]:
        """Yield the texts in order, as many at a time as are held in memory."""
        if self.few is not None:
            yield self.few
            return
        part: list[str] = []
        size = 0
        for text in self._read(KeyChooser(self._key, TEXT_KEYS, "--text-key")):
            part.append(text)
            size += len(text) + OF_A_TEXT
            if size > IN_MEMORY:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _read(self, key: KeyChooser) -> Iterator[str]:
        source = as_input(self._options.input, TableOptions.from_options(self._options))
        records = self._options.shard.of(read_records(source, strict=True))
        return (read_text(record, key) for record in records)


def run(options: Namespace) -> None:
    """Read the texts and write their features."""
    if options.input == "-":
        raise InputError("--input -: featurize reads a file, not standard input; name one")
    if options.output.suffix != ".npy":
        raise InputError(f"--output {options.output}: the name must end in .npy")
    prepare_output(options.output)
    texts = Texts(options)

    from ..files.weights import load_model
    from ..inference.feature_files import LongReading, Reading
    from ..inference.features import FeatureKind, preset

    layers = options.layers[0] if options.layers in (["last"], ["all"]) else options.layers
    chosen = preset(options.preset, state=options.state, pooling=options.pooling)
    kind = FeatureKind(**chosen, layers=layers, tanh=options.tanh, units=options.units)
    loaded = load_model(options.model, device=options.device)
    loaded.model.set_precision(options.precision)
    kind.size(loaded.model.config)  # refuses what the model lacks, before texts are encoded

    def readings() -> Iterator[Reading]:
        for part in texts.parts():
            sequences = [loaded.tokens(text) for text in part]
            yield Reading(loaded.model, sequences, kind, options.batch_size)

    reading = next(readings()) if texts.few is not None else LongReading(readings)
    with ProgressBar("featurize", reading.tokens_in(reading.batches)) as progress:
        write(reading, options.output, progress)
    N, F = reading.shape
    left_blank = f"; {texts.blank:,} of them are empty or missing" if texts.blank else ""
    print(f"{options.output}: {N:,} texts, {F:,} features{left_blank}")


def write(reading: "Reading | LongReading", output: Path, progress: ProgressBar) -> None:
    """Write the features; an interruption leaves the finished part next to `output`."""
    from ..inference.feature_files import compute

    if is_stream(output):  # nothing to continue
        write_into(reading, output, progress)
        return
    path = output.resolve() if output.is_symlink() else output
    busy = refusal(f"{output}: another process is writing it; wait, or name another file")
    with one_at_a_time(path.with_name(f".{path.name}.lock"), busy):
        compute(reading, path, reading.digest(), progress.advance)


def write_into(reading: "Reading | LongReading", pipe: Path, progress: ProgressBar) -> None:
    """Write the features into a pipe or a device, all at once."""
    import numpy as np

    features = np.zeros(reading.shape, dtype=np.float32)
    for rows, values in reading.features(0, progress.advance):
        features[rows] = values
    content = io.BytesIO()  # numpy asks a file for its position, which a pipe lacks
    np.save(content, features, allow_pickle=False)
    with path_in_oserrors(pipe):
        pipe.write_bytes(content.getbuffer())
