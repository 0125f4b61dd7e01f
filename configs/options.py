"""The command line of main.py: a TOML file or an earlier run, overridden key by key."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from mlstm_sentiment.bounds import Argument
from mlstm_sentiment.errors import InputError
from training.parallel.launcher import may_restart
from training.runs.run_directory import PretrainingDirectory

from .command import parse
from .other_names import OTHER_NAMES
from .toml_file import RunConfig, load_config

_EXCLUSIVE = (
    ("train", "steps", "epochs"),
    ("data", "lanes", "lanes_per_rank"),
    ("evaluate", "every_steps", "every_characters"),
    ("checkpoint", "every_steps", "every_characters"),
)
TOUR = Path(__file__).parent / "tour.toml"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Pretrain a byte-level multiplicative LSTM on reviews."""

    config: Path | None = None
    """A TOML file, such as those in configs/. Default: configs/tour.toml, a small example."""
    run_dir: Path | None = None
    """The folder of the run. Default: runs/<name of the config>."""
    resume: Path | None = None
    """The directory of a run to continue; docs/resume.md says what may change."""
    if_exists: Literal["refuse", "resume"] | None = None
    """If the run directory already holds a run: refuse, or resume it, with the same settings.
    Default: resume under a launcher that restarts its workers, else refuse. With resume, no number
    is added to the directory's name."""
    run: Annotated[RunConfig, Argument(is_flat=True)] = field(default_factory=RunConfig)

    @classmethod
    def from_command_line(
        cls, arguments: Sequence[str] | None = None, doc: str | None = None
    ) -> "RunOptions":
        """Parse the command line; its keys override those of --config or --resume."""
        arguments = sys.argv[1:] if arguments is None else arguments
        # The file is read first: its values are the parser's defaults.
        early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        early.add_argument("--config", type=Path)
        early.add_argument("--resume", type=Path)
        try:
            args, _ = early.parse_known_args(arguments)
        except argparse.ArgumentError:
            return parse(cls, doc, arguments=arguments)  # the full parser reports the mistake
        if args.config and args.resume:
            raise InputError("--config cannot be given with --resume: a run keeps its config")
        file = args.config or TOUR
        if args.resume:
            file = PretrainingDirectory(args.resume).check_exists().config
        base = _without_excluded(load_config(file), arguments)
        default = cls(config=args.config, resume=args.resume, run=base)
        names = OTHER_NAMES
        return parse(cls, doc, arguments=arguments, default=default, other_names=names)

    @property
    def may_be_under_way(self) -> bool:
        """Whether an earlier start of the same command may already have begun the run."""
        if self.if_exists is None:
            return may_restart()
        return self.if_exists == "resume"


def _without_excluded(config: RunConfig, arguments: Sequence[str]) -> RunConfig:
    """Drop a value of the file if the command line gives a value to the key that excludes it."""
    values = {}
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        values[name.lstrip("-").replace("-", "_")] = value if equals else following
    for section, one, other in _EXCLUSIVE:
        for mine, excluded in ((one, other), (other, one)):
            is_set = values.get(f"{section}.{mine}", "None") != "None"
            if is_set and f"{section}.{excluded}" not in values:
                changed = replace(getattr(config, section), **{excluded: None})
                config = replace(config, **{section: changed})
    return config


def changed_keys(before: RunConfig, after: RunConfig) -> set[str]:
    """Return the dotted keys in which two configs differ."""
    return {key for key, value in flatten(after).items() if flatten(before)[key] != value}


def flatten(config: RunConfig) -> dict[str, object]:
    """Return the value of every key of a config, by its dotted name."""
    flat: dict[str, object] = {"seed": config.seed}
    for section in fields(config):
        if section.name != "seed":
            for key, value in vars(getattr(config, section.name)).items():
                flat[f"{section.name}.{key}"] = value
    return flat


def with_lanes(config: RunConfig, lanes: int) -> RunConfig:
    """Give the global batch as a total number of lanes."""
    return replace(config, data=replace(config.data, lanes=lanes, lanes_per_rank=None))
