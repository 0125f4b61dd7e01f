"""From options to a run that is ready to start: resolved and checked."""

import logging
from collections.abc import Iterator, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from data_utils.corpus import Corpus
from data_utils.epochs import settle_shuffle
from model.errors import InputError
from model.files.shipped import model_in
from model.language_model import build_model
from model.state import DTYPES
from training.metrics import read_rows
from training.monitoring.tracker import Tracker
from training.parallel.agreement import agreed_precision, check_same, through_main
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.parallel.launcher import may_restart
from training.parallel.shares import with_shares
from training.runs.named_checkpoints import (
    BEFORE_COOLDOWN,
    find_checkpoint,
    go_back,
    keep_newest,
    last_until,
    saved_step,
)
from training.runs.run_directory import (
    PretrainingDirectory,
    await_visible,
    lock_new_run,
    lock_run,
    lock_unnamed_run,
)
from training.trainer import Trainer

from .options import RunOptions, changed_keys, flatten, with_lanes
from .schema import RunConfig
from .toml_file import load_config, save_config

log = logging.getLogger(__name__)

MAY_CHANGE_ON_RESUME = {
    "data.corpus",  # its path; digests check that the corpus is the same
    "data.shuffle",
    "train.steps",
    "train.epochs",
    "train.precision",
    "train.ema_decay",
    "train.timeout_seconds",
    "train.device",
    "optim.decay",
    "optim.decay_steps",
    "optim.hold",
    "evaluate.every_steps",
    "evaluate.probe_train",
    "evaluate.probe_val",
    "evaluate.probe_texts",
    "checkpoint.every_steps",
    "checkpoint.keep",
    "log.every_steps",
    "log.tracker",
    # How ranks work together, since their number may change.
    *{f"parallel.{field.name}" for field in fields(ParallelConfig)}
    - {"parallel.windows_per_step", "parallel.combine"},
}

COOLDOWN = {"optim.cooldown_steps", "optim.cooldown_from"}  # only if the run has none yet
LENGTH = {"train.steps", "train.epochs"}
SCHEDULE = {*LENGTH, "optim.decay", "optim.decay_steps", "optim.hold"}  # not during a cooldown
# With another value, the steps after the newest checkpoint would give another model.
LEARNING = {*SCHEDULE, *COOLDOWN, "data.shuffle", "train.precision", "train.ema_decay"}


@dataclass(frozen=True)
class ResolvedRun:
    """A config with every value set, and the run's folder."""

    config: RunConfig
    world: World  # with the lanes divided as parallel.shares says
    directory: PretrainingDirectory
    lanes: int  # the global batch
    compute_dtype: torch.dtype
    resumed: bool
    may_be_restarted: bool = False  # by a launcher, with any rank as the main one
    from_checkpoint: str | None = None  # the newest
    before: RunConfig | None = None  # the settings that a resumed run had until now
    changed: Set[str] = frozenset()  # the keys in which they differ

    def with_corpus(self, corpus: Corpus) -> "ResolvedRun":
        """Set what depends on the corpus; check that all ranks have the same settings and text.

        Raises InputError if the config has another V, and on every rank if one rank differs.
        """
        model = self.config.model.for_vocabulary(corpus.tokenizer.vocabulary_size)
        data = settle_shuffle(self.config.data, corpus.splits["train"])
        config = replace(self.config, model=model, data=data)
        # Paths may differ. What training starts from is compared once it is loaded.
        paths = {"data.corpus": corpus.fingerprint, "train.start_from": None}
        check_same(self.world, flatten(config) | paths)
        return replace(self, config=config)

    def make_trainer(self, steps_per_epoch: float) -> Trainer:
        """Seed torch, build the model, and return a trainer for all steps of the run.

        Raises InputError, on every rank, if the run has already passed its new length, or if the
        change affects a cooldown that has begun.
        """
        config = self.config
        steps = config.train.total_steps(steps_per_epoch)
        if self.changed & SCHEDULE:
            last = config.optim.schedule(steps, self.lanes).last_step
            through_main(self.world, lambda: self._check_schedule(last, steps_per_epoch))
        torch.manual_seed(config.seed)
        return Trainer(
            build_model(config.model, config.seed, self.compute_dtype),
            optim=config.optim,
            train=config.train,
            world=self.world,
            lanes=self.lanes,
            steps=steps,
            seed=config.seed,
            parallel=config.parallel,
        )

    def _check_schedule(self, steps: int, steps_per_epoch: float) -> None:
        """steps: the last step of the new schedule."""
        done = saved_step(find_checkpoint(self.directory.checkpoints, self.from_checkpoint))
        if self.before is not None:
            planned = self.before.train.total_steps(steps_per_epoch)
            begin = self.before.optim.cooldown_begin(planned)
            if begin is not None and done > begin:
                raise InputError(
                    f"a resumed run cannot change {', '.join(sorted(self.changed & SCHEDULE))} "
                    f"after its cooldown has begun, at step {begin:,}; "
                    f"{_advice_before(self.directory.checkpoints, begin)}"
                )
        if self.changed & LENGTH and steps < done:
            raise InputError(
                f"train.steps or train.epochs asks for {steps:,} steps, but the run has {done:,} "
                "already; ask for more, or go back to an earlier checkpoint (--from)"
            )

    def tracker(self) -> Tracker | None:
        """Begin a run of the config's tracker on the main rank. Raises InputError, on every rank,
        if that fails; after an interruption the run continues without it.
        """
        package, made = self.config.log.tracker, None
        if package is None:
            return None

        def begin() -> str:
            nonlocal made
            try:
                made = Tracker(package, self.directory.folder.name, flatten(self.config))
            except InputError as error:
                if not (self.resumed and self.may_be_restarted):
                    raise
                log.warning(f"{error}; the training continues without it")
            return package

        through_main(self.world, begin)
        return made

    def begin(self) -> None:
        """Save the config in the folder, when nothing can be refused any more. Raises InputError on
        a rank that could not find it after a restart, and, on every rank, an error of the main one.
        """
        through_main(self.world, self._write_config)
        if self.may_be_restarted:
            await_visible(self.directory.config)

    def keep_resumable(self) -> None:
        """Save the config again if the folder was moved or removed meanwhile. Without it, a
        checkpoint there could not be resumed.
        """
        folder = self.directory.folder
        if self.world.is_main and not self.directory.config.is_file():
            log.warning(
                f"{folder}: was moved or removed during the run; it is created again, to resume "
                "from, without the earlier rows and checkpoints"
            )
            folder.mkdir(parents=True, exist_ok=True)
            save_config(self.directory.config, self.config)

    def _write_config(self) -> None:
        back_to = self.from_checkpoint
        newest = find_checkpoint(self.directory.checkpoints, None)
        if back_to is None and newest is not None and self.changed & LEARNING:
            back_to = newest.name  # a kill may have left the model of a later step
        if back_to is not None:
            go_back(self.directory, back_to)
        if self.changed & COOLDOWN:
            keep_newest(self.directory, BEFORE_COOLDOWN)
        save_config(self.directory.config, self.config)


@contextmanager
def resolve_run(options: RunOptions, world: World) -> Iterator[ResolvedRun]:
    """Lock the run's folder and complete its config, which is not saved yet."""
    world = with_shares(world, options.run.parallel.shares)
    with ExitStack() as locked:

        def lock() -> str:
            folder = _lock_directory(options, world.timeout.total_seconds() / 2)
            return str(locked.enter_context(folder).folder)

        directory = PretrainingDirectory(Path(through_main(world, lock)))
        yield _resolve(options, world, directory)


def _resolve(options: RunOptions, world: World, directory: PretrainingDirectory) -> ResolvedRun:
    config, before, changed = options.run, None, set[str]()
    resumed = bool(world.from_main(directory.config.is_file()))
    if resumed:
        await_visible(directory.config)
        saved = load_config(directory.config)
        if options.from_checkpoint is None:
            _check_checkpoints(saved, directory, world)
        config = config if options.resume is not None else settled(config, saved)
        config = _starting_as(_shuffling_as(config, saved), saved)
        before = saved
        if options.from_checkpoint is not None:
            before = replace(saved, optim=saved.optim.without_cooldown())
        changed = changed_keys(before, config)
        _check_resume(changed, COOLDOWN if before.optim.cooldown_steps is None else set())
        if changed & COOLDOWN:
            config = _cooling_down(config, directory, options.from_checkpoint, world)
    else:
        _check_cooldown(config)
    lanes = config.data.total_lanes(world.size)
    if lanes < world.size and config.parallel.shares == "even":
        raise InputError(f"data.lanes is {lanes}, fewer than the {world.size} processes")
    precision = agreed_precision(world, config.train.precision)
    config = with_lanes(config, lanes)
    start_from = _absolute(config.train.start_from)
    train = replace(config.train, precision=precision, start_from=start_from)
    config = replace(config, train=train)
    if config.data.corpus is not None:  # so that a resume finds it from any folder
        config = replace(config, data=replace(config.data, corpus=config.data.corpus.resolve()))
    if config.evaluate.probe_train is not None and config.evaluate.probe_val is not None:
        probe = (config.evaluate.probe_train.resolve(), config.evaluate.probe_val.resolve())
        evaluate = replace(config.evaluate, probe_train=probe[0], probe_val=probe[1])
        config = replace(config, evaluate=evaluate)
    return ResolvedRun(
        config,
        world,
        directory,
        lanes,
        DTYPES[precision],
        resumed,
        options.may_be_under_way,
        options.from_checkpoint,
        before,
        changed,
    )


def _shuffling_as(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Keep the shuffling with which a run began; a run without one predates shuffled reviews."""
    if config.data.shuffle != "auto":
        return config
    shuffle = "shards" if saved.data.shuffle == "auto" else saved.data.shuffle
    return replace(config, data=replace(config.data, shuffle=shuffle))


def _starting_as(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Keep the saved path of the model that a run starts from, if a relative path means it."""
    given = config.train.start_from
    if given is None or saved.train.start_from != str(Path(given).resolve()):
        return config
    return replace(config, train=replace(config.train, start_from=saved.train.start_from))


def _absolute(model: str | None) -> str | None:
    """Return the path of a model's folder, so that a resume finds it from any folder.

    Other names stay: those of shipped models and of the hub.
    """
    if model is None or model_in(Path(model)) is None:
        return model
    return str(Path(model).resolve())


def _cooling_down(
    config: RunConfig, directory: PretrainingDirectory, name: str | None, world: World
) -> RunConfig:
    """Begin the cooldown at the step from which the run resumes, or at a later one if given."""
    step = int(
        through_main(world, lambda: saved_step(find_checkpoint(directory.checkpoints, name)))
    )
    begin = config.optim.cooldown_from
    if begin is not None and begin < step:
        raise InputError(f"optim.cooldown_from is {begin}; the run resumes from step {step}")
    optim = replace(config.optim, cooldown_from=step if begin is None else begin)
    return replace(config, optim=optim)


def settled(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Complete a config with the values of the run's first start."""
    if config.data.lanes is None:
        config = with_lanes(config, saved.data.total_lanes(1))
    train, model, optim = config.train, config.model, config.optim
    if optim.cooldown_from is None and optim.cooldown_steps is not None:
        optim = replace(optim, cooldown_from=saved.optim.cooldown_from)
    if train.precision == "auto":
        train = replace(train, precision=saved.train.precision)
    if model.vocabulary_size is None:
        model = replace(model, vocabulary_size=saved.model.vocabulary_size)
    return replace(config, train=train, model=model, optim=optim)


def _lock_directory(
    options: RunOptions, patience: float
) -> AbstractContextManager[PretrainingDirectory]:
    """Lock the run's folder against other processes.

    patience: under a launcher that may restart, seconds to wait until the process that locked the
    folder before, perhaps on another machine, has ended. Peers wait twice as long for this one.
    """
    if options.from_checkpoint is not None and (options.resume is None or may_restart()):
        raise InputError("--from needs --resume, and a launcher that does not repeat the command")
    patience = patience if may_restart() else 0.0
    if options.resume is not None:
        if options.run_dir is not None:
            raise InputError("--run-dir and --resume exclude each other; a run keeps its folder")
        if options.if_exists == "refuse":
            raise InputError("--if-exists refuse and --resume exclude each other; leave one out")
        return lock_run(PretrainingDirectory(options.resume).check_exists(), patience)
    name = options.config.stem if options.config else "tour"
    if options.may_be_under_way:
        folder = options.run_dir or PretrainingDirectory.ROOT / name
        return lock_run(PretrainingDirectory(folder), patience)
    if options.run_dir is not None:
        return lock_new_run(PretrainingDirectory(options.run_dir))
    return lock_unnamed_run(name)


def _check_cooldown(config: RunConfig) -> None:
    """Refuse a new run whose cooldown would end after its last step; a resume may lengthen it."""
    begin, steps = config.optim.cooldown_from, config.optim.cooldown_steps
    length = config.train.steps
    if begin is not None and steps is not None and length is not None and begin + steps > length:
        raise InputError(
            f"the cooldown would end at step {begin + steps:,}, after the {length:,} of "
            "train.steps; set these higher, or begin it earlier"
        )


def _check_resume(changed: Set[str], allowed: Set[str]) -> None:
    refused = changed - MAY_CHANGE_ON_RESUME - allowed
    if refused:
        raise InputError(
            f"a resumed run cannot change {', '.join(sorted(refused))}; it may change only "
            f"{', '.join(sorted(MAY_CHANGE_ON_RESUME))}; start a new run for the rest"
        )


def _check_checkpoints(saved: RunConfig, directory: PretrainingDirectory, world: World) -> None:
    """Raise InputError, on every rank, if a run must have saved checkpoints and has none. It would
    begin again at step 0, and overwrite its rows and its model.
    """

    def check() -> None:
        folder = directory.checkpoints
        if folder.is_symlink() and not folder.exists():
            raise InputError(f"{folder}: is a broken link; is its disk mounted?")
        if find_checkpoint(folder, None) is None:
            reached = max((row["step"] for row in read_rows(directory.metrics)), default=0)
            if reached > saved.checkpoint.every_steps or reached == saved.train.steps:
                raise InputError(
                    f"{folder}: holds no checkpoint, but the run has reached step {reached:,}; "
                    "put its checkpoints back, or begin a new run"
                )

    through_main(world, check)


def _advice_before(checkpoints: Path, step: int) -> str:
    """Say from which checkpoint of this step, or of an earlier one, the run may continue."""
    kept = last_until(checkpoints, step)
    if kept is None:
        return "no earlier checkpoint is kept, so begin a new run for that"
    return f"go back to a checkpoint before it: --from {kept.name}"
