"""What a resumed run keeps of its earlier settings, and what it may change."""

from collections.abc import Set
from dataclasses import dataclass, fields, replace
from pathlib import Path

from model.errors import InputError
from training.metrics import read_rows
from training.parallel.agreement import run_on_main
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.runs.named_checkpoints import checkpoints_in, find_checkpoint, last_until, saved_step
from training.runs.run_directory import PretrainingDirectory

from .options import RunOptions, changed_keys, with_lanes
from .toml_file import RunConfig

MAY_CHANGE_ON_RESUME = {
    "data.corpus",  # its path; digests check that the corpus is the same
    "train.steps",
    "train.epochs",
    "train.precision",
    "train.timeout_seconds",
    "train.device",
    "optim.decay",
    "optim.decay_steps",
    "optim.hold",
    "evaluate.every_steps",
    "evaluate.probe_train",
    "evaluate.probe_val",
    "checkpoint.every_steps",
    "checkpoint.keep",
    "log.every_steps",
    "log.profile",
    # How ranks work together, since their number may change.
    *{f"parallel.{field.name}" for field in fields(ParallelConfig)}
    - {"parallel.windows_per_step", "parallel.combine"},
}

COOLDOWN = {"optim.cooldown_steps"}  # may change if there is none yet
LENGTH = {"train.steps", "train.epochs"}
SCHEDULE = {*LENGTH, "optim.decay", "optim.decay_steps", "optim.hold"}  # not during a cooldown
# If one of these changes, repeating the steps after the newest checkpoint gives another model.
LEARNING = {*SCHEDULE, *COOLDOWN, "train.precision"}


@dataclass(frozen=True)
class Resumption:
    """Where a run is resumed, and what is new about it."""

    before: RunConfig  # its settings until now
    changed: Set[str]  # the keys that have other values now
    done: int  # steps

    def check_schedule(
        self, steps: int, steps_per_epoch: float, directory: PretrainingDirectory
    ) -> None:
        """Raise InputError for a schedule that the run cannot follow from here.

        The run may have passed the new length already, a cooldown may have begun, which fixes the
        schedule, or the run may have ended and lost its checkpoints. steps: the new last step.
        """
        planned = self.before.train.total_steps(steps_per_epoch)
        if self.done == 0 and _reached(directory) >= self.before.optim.last_step(planned):
            raise _gone(directory)
        if not self.changed & SCHEDULE:
            return
        begin = self.before.optim.cooldown_begin(planned)
        if begin is not None and self.done > begin:
            raise InputError(
                f"a resumed run cannot change {', '.join(sorted(self.changed & SCHEDULE))} "
                f"after its cooldown has begun, at step {begin:,}; "
                f"{_advice_before(directory.checkpoints, begin)}"
            )
        if self.changed & LENGTH and steps < self.done:
            raise InputError(
                f"train.steps or train.epochs asks for {steps:,} steps, but the run has "
                f"{self.done:,} already; ask for more, or go back to an earlier checkpoint (--from)"
            )


def resume(
    options: RunOptions, saved: RunConfig, directory: PretrainingDirectory, world: World
) -> tuple[RunConfig, Resumption]:
    """Return the settings with which a run is resumed, and what is new about them.

    saved: those in its folder. Raises InputError, on every rank, for a change that a resumed run
    cannot make, and where its checkpoints are gone.
    """
    back_to = options.from_checkpoint
    if back_to is None:
        _check_checkpoints(saved, directory, world)
    if saved.data.shuffle == "auto":  # the run predates shuffled reviews
        saved = replace(saved, data=replace(saved.data, shuffle="shards"))
    config = options.run if options.resume is not None else with_saved_defaults(options.run, saved)
    if config.data.shuffle == "auto":
        config = replace(config, data=replace(config.data, shuffle=saved.data.shuffle))
    config = _keep_start(config, saved)
    before = saved
    if back_to is not None:
        before = replace(saved, optim=saved.optim.without_cooldown())
    changed = changed_keys(before, config)
    checkpoints = directory.checkpoints
    if before.optim.cooldown_steps is not None and changed & COOLDOWN:
        _refuse_another_cooldown(before, changed, checkpoints)
    _check_changes(before, changed)
    done = run_on_main(world, lambda: saved_step(find_checkpoint(checkpoints, back_to)))
    resumption = Resumption(before, changed, int(done))
    if changed & COOLDOWN:  # it begins where the run resumes
        optim = replace(config.optim, cooldown_from=resumption.done)
        config = replace(config, optim=optim)
    return config, resumption


def _keep_start(config: RunConfig, saved: RunConfig) -> RunConfig:
    """Keep the saved path of the model that a run starts from, if a relative path means it."""
    start = config.train.start_from
    if start is None or saved.train.start_from != str(Path(start).resolve()):
        return config
    return replace(config, train=replace(config.train, start_from=saved.train.start_from))


def with_saved_defaults(config: RunConfig, saved: RunConfig) -> RunConfig:
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


def _refuse_another_cooldown(before: RunConfig, changed: Set[str], checkpoints: Path) -> None:
    """Raise InputError, which says what cooldown the run has and where to begin another one."""
    begin, where = before.optim.cooldown_from, " at its end"
    advice = "go back to a checkpoint before it (--from)"
    if begin is not None:
        where, advice = f" from step {begin:,}", _advice_before(checkpoints, begin)
    raise InputError(
        f"a resumed run cannot change {', '.join(sorted(changed & COOLDOWN))}: it has a cooldown "
        f"of {before.optim.cooldown_steps:,} steps{where}; {advice}"
    )


def _check_changes(before: RunConfig, changed: Set[str]) -> None:
    has_cooldown = before.optim.cooldown_steps is not None
    allowed = MAY_CHANGE_ON_RESUME if has_cooldown else MAY_CHANGE_ON_RESUME | COOLDOWN
    refused = changed - allowed
    if refused:
        raise InputError(
            f"a resumed run cannot change {', '.join(sorted(refused))}; it may change only "
            f"{', '.join(sorted(allowed))}; start a new run for the rest"
        )


def _check_checkpoints(saved: RunConfig, directory: PretrainingDirectory, world: World) -> None:
    """Raise InputError, on every rank, if a run must have saved checkpoints and has none.

    It would begin again at step 0, and overwrite its rows and its model.
    """

    def check() -> None:
        if find_checkpoint(directory.checkpoints, None) is None:
            if named := checkpoints_in(directory.checkpoints):
                raise InputError(
                    f"{directory.checkpoints}: holds only named checkpoints; choose one with "
                    f"--from: {', '.join(named)}"
                )
            if _reached(directory) > saved.checkpoint.every_steps:
                raise _gone(directory)

    run_on_main(world, check)


def _reached(directory: PretrainingDirectory) -> int:
    """Return the step of a run's last row."""
    return max((row["step"] for row in read_rows(directory.metrics)), default=0)


def _gone(directory: PretrainingDirectory) -> InputError:
    return InputError(
        f"{directory.checkpoints}: holds no checkpoint, but the run has reached step "
        f"{_reached(directory):,}; put its checkpoints back, or begin a new run"
    )


def _advice_before(checkpoints: Path, step: int) -> str:
    """Say from which checkpoint of this step, or of an earlier one, the run may continue."""
    checkpoint = last_until(checkpoints, step)
    if checkpoint is None:
        return "there is no checkpoint before it, so start a new run instead"
    return f"go back to a checkpoint before it: --from {checkpoint.name}"
