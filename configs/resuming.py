"""The settings that a resumed run keeps, and those that it may change."""

from collections.abc import Set
from dataclasses import dataclass, fields, replace
from pathlib import Path

from mlstm_sentiment.errors import InputError
from training.parallel.distributed import World, run_on_main
from training.parallel.exchange import ParallelConfig
from training.run_plan import RunPlan
from training.runs.checkpoint_store import newest_step
from training.runs.run_directory import PretrainingDirectory, read_rows

from .options import RunConfig, RunOptions, changed_keys, with_lanes

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


def resume(
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
