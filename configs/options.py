"""The command line of main.py: a TOML file or an earlier run, and single keys over it."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from model.errors import InputError
from training.parallel.launcher import may_restart
from training.runs.run_directory import existing_run_directory

from .command import parse
from .schema import RunConfig
from .toml_file import load_config

EXCLUSIVE = (("train", "steps", "epochs"), ("data", "lanes", "lanes_per_rank"))
TOUR = Path(__file__).parent / "tour.toml"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Pretrain a byte-level multiplicative LSTM on reviews."""

    config: Path | None = None
    """A TOML file from configs/; absent, the tour."""
    run_dir: Path | None = None
    """Where the run is written; absent, runs/<name of the config>."""
    resume: Path | None = None
    """The directory of a run to go on with; docs/resume.md says what may change."""
    from_checkpoint: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """With --resume: the checkpoint to go on from, by its name in checkpoint/, with no cooldown
    unless one is given; absent, the newest. What came after it is moved to DIR/aside-step-N."""
    if_exists: Literal["refuse", "resume"] | None = None
    """Where the run directory holds a run already: refuse, or go on with it, which must have been
    started with the same settings. Absent, resume where torch.distributed.run may restart
    (--max-restarts above 0), else refuse; resume never makes up another name for the directory."""
    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)

    @classmethod
    def from_command_line(
        cls, arguments: Sequence[str] | None = None, doc: str | None = None
    ) -> "RunOptions":
        """Parse: the keys on the command line go over those of --config or --resume."""
        arguments = sys.argv[1:] if arguments is None else arguments
        # The file must be read before the parser is made: its values are the defaults.
        early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        early.add_argument("--config", type=Path)
        early.add_argument("--resume", type=Path)
        early.add_argument("--from", dest="from_checkpoint")
        try:
            known, _ = early.parse_known_args(arguments)
        except argparse.ArgumentError:
            return parse(cls, doc, arguments=arguments)  # which says what is wrong
        if known.config and known.resume:
            raise InputError("--config and --resume exclude each other; a run keeps its config")
        file = known.config or TOUR
        if known.resume:
            file = existing_run_directory(known.resume).config
        base = load_config(file)
        if known.from_checkpoint:
            base = without_cooldown(base)
        base = make_way(base, arguments)
        default = cls(config=known.config, resume=known.resume, run=base)
        # --section.key value for every key, booleans too
        return parse(
            cls, doc, arguments=arguments, default=default, config=(tyro.conf.FlagConversionOff,)
        )

    @property
    def may_be_under_way(self) -> bool:
        """Whether this same command may have been started before, and this is the same run."""
        if self.if_exists is None:
            return may_restart()
        return self.if_exists == "resume"


def make_way(config: RunConfig, arguments: Sequence[str]) -> RunConfig:
    """Clear what the file says where the command line gives the key that excludes it."""
    given = {word.split("=")[0].lstrip("-").replace("-", "_") for word in arguments}
    for section, one, other in EXCLUSIVE:
        for mine, excluded in ((one, other), (other, one)):
            if f"{section}.{mine}" in given and f"{section}.{excluded}" not in given:
                changed = replace(getattr(config, section), **{excluded: None})
                config = replace(config, **{section: changed})
    return config


def without_cooldown(config: RunConfig) -> RunConfig:
    """Return the config of a run whose rate follows its schedule alone."""
    optim = replace(config.optim, cooldown_steps=None, cooldown_from=None)
    return replace(config, optim=optim)


def changed_keys(before: RunConfig, after: RunConfig) -> set[str]:
    """Return the dotted keys in which two configs differ."""
    return {key for key, value in flatten(after).items() if flatten(before)[key] != value}


def flatten(config: RunConfig) -> dict[str, object]:
    """Return every key of a config, dotted."""
    flat: dict[str, object] = {"seed": config.seed}
    for section in fields(config):
        if section.name != "seed":
            for key, value in vars(getattr(config, section.name)).items():
                flat[f"{section.name}.{key}"] = value
    return flat


def with_lanes(config: RunConfig, lanes: int) -> RunConfig:
    """Replace both ways to give the global batch by its total."""
    return replace(config, data=replace(config.data, lanes=lanes, lanes_per_rank=None))
