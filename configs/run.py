"""From options to a run that is ready to start, or to go on: resolved and checked."""

from collections.abc import Iterator, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
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
from training.parallel.exchange import ParallelConfig
from training.parallel.launcher import may_restart
from training.precision import agreed_precision
from training.run_plan import RunPlan
from training.runs.checkpoint_store import newest_step
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

from .options import RunConfig, RunOptions, changed_keys, flatten, load_config, with_lanes

if TYPE_CHECKING:
    from training.start import StartModel

_MAY_CHANGE_ON_RESUME = {
    "model.backend",
    "data.corpus",  # its path; digests in the checkpoints check that the corpus is the same
    "train.steps",
    "train.epochs",
    "train.precision",
    "train.timeout_seconds",
    "train.device",
    "optim.decay",
    "optim.hold",
    "optim.cooldown",
    "evaluate.every_steps",
    "evaluate.every_characters",
    "evaluate.probe_train",
    "evaluate.probe_val",
    "checkpoint.every_steps",
    "checkpoint.every_characters",
    "checkpoint.keep",
    "log.every_steps",
    # How ranks work together, since their number may change.
    *{f"parallel.{field.name}" for field in fields(ParallelConfig)}
    - {"parallel.windows_per_step", "parallel.combine"},
}

_LENGTH = {"train.steps", "train.epochs"}
# May change until the first step of a cooldown.
_SCHEDULE = {*_LENGTH, "optim.decay", "optim.hold", "optim.cooldown"}


@dataclass(frozen=True)
class Resumption:
    """The step from which a run is resumed, and its changed settings."""

    before: RunConfig  # its settings until now
    changed: Set[str]  # the keys that have other values now
    done: int  # steps

    def check(self, plan: RunPlan, directory: PretrainingDirectory) -> None:
        """Raise InputError for a new plan that the run cannot follow from here.

        The run may have passed the new length already, a cooldown may have begun, which fixes the
        schedule, or the checkpoints may be gone: it would begin again at step 0, and overwrite its
        rows and its model.
        """
        before = self.before.plan(plan.clock)
        if self.done == 0:
            reached = max((row["step"] for row in read_rows(directory.metrics)), default=0)
            if before.has_saved(reached):
                raise InputError(
                    f"{directory.checkpoints}: holds no checkpoint, but the run has reached step "
                    f"{reached:,}; put its checkpoints back, or begin a new run"
                )
        if not self.changed & _SCHEDULE:
            return
        if before.cooldown is not None and self.done > before.cooldown.start:
            raise InputError(
                f"a resumed run cannot change {', '.join(sorted(self.changed & _SCHEDULE))} "
                f"after its cooldown has begun, at step {before.cooldown.start:,}; resume a copy "
                "of the run from before that step"
            )
        if self.changed & _LENGTH and plan.last_step < self.done:
            raise InputError(
                f"train.steps or train.epochs asks for {plan.last_step:,} steps, but the run has "
                f"{self.done:,} already; ask for more, or remove the later checkpoints from a copy "
                "of the run and resume it"
            )


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
    resumption: Resumption | None  # absent in a new run
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
        await_visible(directory.config)
        config, resumption = _resume(options, load_config(directory.config), directory, world)
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
    model, data = config.model.for_vocabulary(corpus.tokenizer.vocabulary_size), config.data
    if resumption is None:
        data = settle_shuffle(data, corpus.splits["train"])
    config = replace(config, model=model, data=data)
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


def _resume(
    options: RunOptions, saved: RunConfig, directory: PretrainingDirectory, world: World
) -> tuple[RunConfig, Resumption]:
    """Return the settings of the resumed run, and which of them changed.

    saved: those in its folder. Raises InputError, on every rank, for a change that a resumed run
    cannot make.
    """
    if saved.data.shuffle == "auto":
        raise InputError(
            f"{directory.config}: has no data.shuffle, so an earlier version began the run; "
            f"--train.start_from {directory.folder} begins a new one with its model"
        )
    done = int(run_on_main(world, lambda: newest_step(directory.checkpoints)))
    config = options.run if options.resume is not None else _with_saved_defaults(options.run, saved)
    config = _with_cooldown(_keep_paths(config, saved), saved, done)
    changed = changed_keys(saved, config) - {"optim.cooldown_from"}
    asked, first = options.run.data.lanes_per_rank, saved.data.first_lanes_per_rank
    if None not in (asked, first) and asked != first:
        changed.add("data.lanes_per_rank")
    allowed = _MAY_CHANGE_ON_RESUME if done else _MAY_CHANGE_ON_RESUME - {"data.corpus"}
    if refused := changed - allowed:
        raise InputError(
            f"a resumed run cannot change {', '.join(sorted(refused))}; it may change only "
            f"{', '.join(sorted(allowed))}; start a new run for the rest"
        )
    return config, Resumption(saved, changed, done)


def _with_cooldown(config: RunConfig, saved: RunConfig, done: int) -> RunConfig:
    """Begin a cooldown that the command asks for where the run resumes, after `done` steps."""
    cooldown, begin = config.optim.cooldown, saved.optim.cooldown_from
    if cooldown != saved.optim.cooldown:
        begin = None if cooldown is None else done
    return replace(config, optim=replace(config.optim, cooldown_from=begin))


def _keep_paths(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Keep the saved paths of the corpus and of the first model, if relative paths mean them."""
    data, train = config.data, config.train
    if data.corpus is not None and data.corpus.resolve() == saved.data.corpus:
        data = replace(data, corpus=saved.data.corpus)
    if train.start_from and str(Path(train.start_from).resolve()) == saved.train.start_from:
        train = replace(train, start_from=saved.train.start_from)
    return replace(config, data=data, train=train)


def _with_saved_defaults(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Complete a config with the values of the run's first start."""
    if config.data.lanes is None:
        config = with_lanes(config, saved.data.total_lanes(1))
    data, train, model = config.data, config.train, config.model
    data = replace(data, first_lanes_per_rank=saved.data.first_lanes_per_rank)
    if data.shuffle == "auto":
        data = replace(data, shuffle=saved.data.shuffle)
    if train.precision == "auto":
        train = replace(train, precision=saved.train.precision)
    if model.vocabulary_size is None:
        model = replace(model, vocabulary_size=saved.model.vocabulary_size)
    return replace(config, data=data, train=train, model=model)
