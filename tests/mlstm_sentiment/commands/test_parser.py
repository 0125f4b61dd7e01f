"""A dataclass as a command line: flags, repeated options, groups, sections, bounds, help."""

from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from mlstm_sentiment.bounds import Argument, PositiveInt, check_unset
from mlstm_sentiment.commands import classify
from mlstm_sentiment.commands.parser import parse
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import check_output, write_content
from mlstm_sentiment.reading.source import Shard


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large it is."""

    height: PositiveInt = 3
    """Its height in metres."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """Options that several commands have."""

    name: str | None = None
    """Its name. Default: none."""


@dataclass(frozen=True, kw_only=True)
class Options(Base):
    """Build a house."""

    stop: bool = False
    """Stop early."""
    loud: bool = True
    top: int = 0
    """How many more."""
    ansi: bool | None = None
    text: Annotated[tuple[str, ...], Argument(repeated=True, group="text")] = ()
    """A word about it."""
    shard: Annotated[Shard, Argument(metavar="i/n")] = field(default_factory=Shard)
    layers: Literal["last", "all"] | tuple[int, ...] = "last"
    rooms: tuple[str, ...] = ("hall", "attic")
    ends: Annotated[tuple[float, float] | None, Argument(metavar=("LOW", "HIGH"))] = None
    size: Annotated[Size, Argument(is_flat=True, group="size")] = field(default_factory=Size)
    output: Path | None = None


DOC = """Build a house.

house --name mine
"""


def parsed(*words):
    return parse(Options, DOC, arguments=words, program="house")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--stop"], "stop", True),
        (["--stop", "--no-stop"], "stop", False),
        (["--no-loud"], "loud", False),
        ([], "ansi", None),
        (["--no-ansi"], "ansi", False),
        ([], "text", ()),
        (["--text", "a", "--text=-b"], "text", ("a", "-b")),
        (["--shard", "2/3"], "shard", Shard(2, 3)),
        (["--layers", "all"], "layers", "all"),
        ([], "rooms", ("hall", "attic")),
        (["--rooms", "bath", "--rooms", "hall", "cellar"], "rooms", ("bath", "hall", "cellar")),
        (["--layers", "0", "2"], "layers", (0, 2)),
        (["--ends", "0.1", "0.9"], "ends", (0.1, 0.9)),
        (["--height", "5"], "size", Size(height=5)),
        (["--output", "a_b"], "output", Path("a_b")),
        (["--name=x_y"], "name", "x_y"),
    ],
)
def test_words_become_values(words, name, value):
    assert getattr(parsed(*words), name) == value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--height", "0"], "--height is 0; it must be at least 1"),
        (["--height", "tall"], "argument --height: 'tall' is not a whole number"),
        (["--ends", "0.1"], "argument --ends: expected 2 arguments"),
        (["--ends", "0.1", "nan"], "--ends is .*; it must be finite"),
        (["--shard", "4/3"], "argument --shard: '4/3' is not i/n, such as 1/8 to 8/8"),
        (["--layers", "first"], "'first' is not last, all or a whole number"),
        (["--layers", "last", "1"], "last 1: give one word or numbers"),
        (["--layers", "0", "--layers", "1"], "argument --layers: given twice"),
        (["--name", "a", "--name=b"], "argument --name: given twice; give it once"),
        (["--ends", "0.1", "0.2", "--ends", "0.1", "0.2"], "argument --ends: given twice"),
        (["--hight", "5"], "unknown: --hight; did you mean '--height'.*house --help"),
    ],
)
def test_a_mistake_is_named(words, said):
    with pytest.raises(InputError, match=said):
        parsed(*words)


def test_help_has_the_groups_the_docstrings_and_the_defaults(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "usage: house [-h] [OPTIONS] Build a house.",
        "--name TEXT Its name. Default: none.",  # of the base class
        "--stop Stop early.",
        "--top INT How many more. (default: 0)",
        "text options: --text TEXT A word about it.",
        "size options: --height INT Its height in metres. (default: 3)",
        "--shard i/n",
        "--ends LOW HIGH",
        "examples: house --name mine",
    ):
        assert part in shown
    assert "--no-stop" not in shown


def test_options_that_have_no_effect_are_refused_by_their_names():
    check_unset(parsed(), ("name", "size"), "is for a house")
    for words, name in ((["--name", "x"], "name"), (["--height", "9"], "height")):
        with pytest.raises(InputError, match=f"--{name} is for a house; leave it out"):
            check_unset(parsed(*words), ("name", "size"), "is for a house")


def test_only_paths_and_the_folder_of_the_model_are_inputs(tmp_path, monkeypatch):
    """A folder may have the name of a model, of a precision or of any other value."""
    monkeypatch.chdir(tmp_path)
    for name in ("default", "exact", "csv", "auto", "refuse", "utf-8", ",", "mine", "classifier"):
        Path(name).mkdir()
        write_content(Path(name) / "out.csv", "text\n", "rows")
    (tmp_path / "texts.csv").write_text("text\n")
    (tmp_path / "mine" / "config.json").write_text("{}")
    words = ["--input", "texts.csv", "--output", "a.csv", "--format", "csv"]
    words += ["--encoding", "utf-8", "--delimiter", ","]

    def refused(*more):
        context = copy_context()
        context.run(parse, classify.Options, arguments=[*words, *more])
        found = []
        for path in sorted(tmp_path.rglob("*.csv")):
            with suppress(InputError):
                context.run(check_output, path, "rows")
                continue
            found.append(str(path.relative_to(tmp_path)))
        return found

    assert refused() == ["texts.csv"]
    assert refused("--model", "mine") == ["mine/out.csv", "texts.csv"]
    assert refused("--classifier", "classifier") == ["classifier/out.csv", "texts.csv"]
