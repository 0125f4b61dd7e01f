"""From options to a run that is ready to start: resolved and checked."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from data_utils.corpus import Corpus, is_corpus, load_corpus
from data_utils.lanes import TextClock, settle_shuffle
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import model_in
from model.layers.language_model import build_model
from model.state import DTYPES
from training.checkpoint import Checkpoints
from training.parallel.distributed import World, check_same, run_on_main
from training.parallel.launcher import may_restart
from training.precision import agreed_precision
from training.run_plan import RunPlan
from training.runs.run_directory import (
    PretrainingDirectory,
    await_visible,
    lock_new_run,
    lock_run,
    lock_unnamed_run,
    read_rows,
    save_toml,
)
from training.trainer import Trainer

from .options import RunConfig, RunOptions, flatten, load_config, with_lanes

if TYPE_CHECKING:
    from training.start import StartModel

    from .resuming import Resumption


@dataclass(frozen=True)
class ResolvedRun:
    """A config with every value set, the run's folder and its corpus."""

    config: RunConfig
    world: World  # with the lanes divided as parallel.shares says
    directory: PretrainingDirectory
    corpus: Corpus
    checkpoints: Checkpoints
    start: "StartModel | None"  # absent if a checkpoint has the weights
    lanes: int  # the global batch
    resumption: "Resumption | None"  # absent in a new run
    may_be_restarted: bool  # by a launcher, with any rank as the main one

    @property
    def resumed(self) -> bool:
        """Whether the run was begun before."""
        return self.resumption is not None

    def plan(self, clock: TextClock) -> RunPlan:
        """Return when the run ends, evaluates and saves.

        Raises InputError, on every rank, if the run has already passed its new length, or if the
        change affects a cooldown that has begun.
        """
        plan, resumption = self.config.plan(clock), self.resumption
        if resumption is not None:
            run_on_main(self.world, lambda: resumption.check(plan, self.directory))
        return plan

    def make_trainer(self, plan: RunPlan) -> Trainer:
        """Seed torch, build the model, and return a trainer for all steps of the run."""
        config = self.config
        torch.manual_seed(config.seed)
        return Trainer(
            build_model(config.model, config.seed, DTYPES[config.train.precision]),
            optim=config.optim,
            train=config.train,
            world=self.world,
            lanes=self.lanes,
            steps=plan.steps,
            seed=config.seed,
            parallel=config.parallel,
        )

    def begin(self) -> None:
        """Save the config in the run's folder, after all other checks have passed.

        Raises InputError on a rank that would not find the file after a restart. An error on the
        main rank is raised on every rank.
        """
        run_on_main(self.world, self._write_config)
        if self.may_be_restarted:
            await_visible(self.directory.config)

    def _write_config(self) -> None:
        if self.resumed:
            read_rows(self.directory.metrics)  # refused before anything is changed
        save_toml(self.directory.config, self.config)


@contextmanager
def resolve_run(options: RunOptions, world: World) -> Iterator[ResolvedRun]:
    """Lock the run's folder, complete its config, which is not saved yet, and open its corpus."""
    if isinstance(shares := options.run.parallel.shares, tuple):
        world = replace(world, shares=shares)
    with ExitStack() as locked:

        def lock() -> str:
            folder = _lock_directory(options, world.timeout.total_seconds() / 2)
            return str(locked.enter_context(folder).folder)

        directory = PretrainingDirectory(Path(run_on_main(world, lock)))
        yield _resolve(options, world, directory)


def _resolve(options: RunOptions, world: World, directory: PretrainingDirectory) -> ResolvedRun:
    """Set every value, open the corpus, and check that all ranks have the same."""
    config, resumption = options.run, None
    if world.broadcast_int(directory.config.is_file()):
        from .resuming import resume  # only for runs that resume

        await_visible(directory.config)
        config, resumption = resume(options, load_config(directory.config), directory, world)
    else:
        _check_new(config)
        first = config.data.lanes_per_rank
        config = replace(config, data=replace(config.data, first_lanes_per_rank=first))
    lanes = config.data.total_lanes(world.size)
    if lanes < world.size and isinstance(config.parallel.shares, str):  # a number may be 0
        raise InputError(
            f"data.lanes is {lanes}, fewer than the {world.size} processes; give at least "
            f"{world.size} lanes, or start fewer processes"
        )
    check_same(world, {"train.precision": config.train.precision})
    precision = agreed_precision(world, config.train.precision)
    config = replace(config, train=replace(config.train, precision=precision))
    config = _with_absolute_paths(with_lanes(config, lanes))
    corpus = _open_corpus(config.data.corpus, is_moved_if_absent=resumption is not None)
    checkpoints = Checkpoints(
        directory.checkpoints, config.checkpoint.keep, corpus.fingerprint, corpus.tokenizer
    )
    checkpoints.check_corpus(world)  # first: the vocabulary's error would hide this one
    config = _with_corpus(config, corpus, is_new=resumption is None)
    # Paths may differ. Initial weights are compared after loading; the main rank reads the probe.
    paths = {"data.corpus": corpus.fingerprint, "train.start_from": None}
    paths |= dict.fromkeys(("evaluate.probe_train", "evaluate.probe_val"))
    check_same(world, flatten(config) | paths)
    begins = resumption is None or resumption.done == 0
    return ResolvedRun(
        config=config,
        world=world,
        directory=directory,
        corpus=corpus,
        checkpoints=checkpoints,
        start=_start_of(config, corpus) if begins else None,
        lanes=lanes,
        resumption=resumption,
        may_be_restarted=options.may_be_under_way,
    )


def _open_corpus(folder: Path | None, *, is_moved_if_absent: bool) -> Corpus:
    """Open the corpus; InputError, for a resumed run with advice, if it is not there."""
    if is_moved_if_absent and folder is not None and not is_corpus(folder):
        raise InputError(
            f"{folder}: the run's corpus is missing; if it was moved, give its new path with "
            "--data.corpus"
        )
    return load_corpus(folder)


def _with_corpus(config: RunConfig, corpus: Corpus, *, is_new: bool) -> RunConfig:
    """Set what depends on the corpus; InputError if the config has another V."""
    model = config.model.for_vocabulary(corpus.tokenizer.vocabulary_size)
    data = settle_shuffle(config.data, corpus.splits["train"]) if is_new else config.data
    return replace(config, model=model, data=data)


def _start_of(config: RunConfig, corpus: Corpus) -> "StartModel | None":
    """Open the model from whose weights the run begins, if any; InputError if it does not fit."""
    if config.train.start_from is None:
        return None
    from training.start import StartModel

    name, tokenizer = config.train.start_from, corpus.tokenizer
    return StartModel.open(name, config.model, corpus.text_profile, tokenizer)


def _with_absolute_paths(config: RunConfig) -> RunConfig:
    """Make the paths absolute that training reads, so that a resume finds them from any folder."""
    data, train, evaluate = config.data, config.train, config.evaluate
    if data.corpus is not None:
        data = replace(data, corpus=data.corpus.resolve())
    train = replace(train, start_from=_absolute(train.start_from))
    if evaluate.probe_train is not None and evaluate.probe_val is not None:
        probe = (evaluate.probe_train.resolve(), evaluate.probe_val.resolve())
        evaluate = replace(evaluate, probe_train=probe[0], probe_val=probe[1])
    return replace(config, data=data, train=train, evaluate=evaluate)


def _absolute(model: str | None) -> str | None:
    """Return the absolute path of a model's folder; names of shipped and hub models stay."""
    if model is None or model_in(Path(model)) is None:
        return model
    return str(Path(model).resolve())


def _lock_directory(
    options: RunOptions, patience: float
) -> AbstractContextManager[PretrainingDirectory]:
    """Lock the run's folder against other processes.

    patience: under a launcher that may restart, seconds to wait until the process that locked the
    folder before, perhaps on another machine, has ended. Peers wait twice as long for this one.
    """
    patience = patience if may_restart() else 0.0
    if options.resume is not None:
        if options.run_dir is not None:
            raise InputError("--run-dir cannot be given with --resume: a run keeps its directory")
        if options.if_exists == "refuse":
            raise InputError("--if-exists refuse and --resume contradict each other; leave one out")
        return lock_run(PretrainingDirectory(options.resume).check_exists(), patience)
    name = options.config.stem if options.config else "tour"
    if options.may_be_under_way:
        folder = options.run_dir or PretrainingDirectory.ROOT / name
        return lock_run(PretrainingDirectory(folder), patience)
    if options.run_dir is not None:
        return lock_new_run(PretrainingDirectory(options.run_dir))
    return lock_unnamed_run(name)


def _check_new(config: RunConfig) -> None:
    """Refuse settings without effect in a new run; an older one may have begun with them."""
    optim = config.optim
    config.parallel.check_effects()
    if optim.cooldown_from is not None:
        raise InputError(
            f"optim.cooldown_from is {optim.cooldown_from:,}, which is only for a resumed run; "
            "leave it out: the cooldown takes the last steps of the run"
        )
    if optim.warmup + (optim.cooldown or 0) > 1:
        raise InputError(
            "optim.warmup and optim.cooldown are together more than the whole run, which would "
            "never reach its learning rate; lower one of them"
        )
