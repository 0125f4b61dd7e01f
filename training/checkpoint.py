"""The checkpoints of pretraining, from which a run continues exactly.

`step-N/` holds a model directory (`model.safetensors`, `config.json`) and the training state:

- `optimizer.safetensors`; if each rank has its own optimiser state, those after the first
  are in `optimizer-1.safetensors` and so on;
- `lanes.safetensors`: the state that each lane carries; the loss (by rank) and the overflows since
  the last row of metrics; the random state;
- `training.json`: progress, loss scale, the corpus's fingerprint.

Rank 0 writes, in the background: it copies everything into its own memory, and training continues.
Nothing is ever unpickled.
"""

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from mlstm_sentiment.bounds import PositiveInt, check_bounds
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE, WEIGHTS_FILE
from mlstm_sentiment.files.storage import read_json, step_folder, step_of
from mlstm_sentiment.files.writer import check_unchanged
from mlstm_sentiment.text.profiles import TextProfile
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer
from model.inference.tensors import save_model, save_tensors
from model.state import State

from .parallel.distributed import World, run_on_main
from .parallel.exchange import every_ranks, send_to_main
from .run_plan import Characters
from .runs.checkpoint_store import (
    CheckpointStore,
    advice_if_damaged,
    check_tensors,
    flatten_optimizers,
    load_tensors,
    named_faults,
    newest_step,
    optimizer_file,
    restore_optimizers,
    restore_weights,
)
from .runs.run_directory import LANES_FILE, TRAINING_FILE, PretrainingDirectory, await_visible
from .trainer import PretrainingProgress, Trainer

_CONFIG = "the config asks for"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When the run is saved, and how many checkpoints are kept."""

    DEFAULT_STEPS: ClassVar[int] = 400
    EXCLUSIVE: ClassVar = ("every_steps", "every_characters")

    every_steps: PositiveInt | None = None
    """Steps between checkpoints; the end of the run, and a signal to end it, also save one.
    Default: 400, unless every_characters is given."""
    every_characters: Characters | None = None
    """Characters of text between checkpoints, such as 3e6, instead of steps."""
    keep: PositiveInt = 2
    """Newest checkpoints to keep. The best model on the valid split is kept separately, in
    model/."""

    def __post_init__(self) -> None:
        check_bounds(self, "checkpoint.")


class Checkpoints(CheckpointStore):
    """The checkpoints of a pretraining.

    Used as a context manager, it writes in the background, and waits for the last write on exit.
    """

    FORMAT_VERSION = 2  # 2: several optimiser states; 1: a single one

    def __init__(
        self, folder: Path, keep: int, corpus_fingerprint: str, tokenizer: Tokenizer = BYTES
    ):
        super().__init__(folder, keep)
        self.corpus_fingerprint, self.tokenizer = corpus_fingerprint, tokenizer
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def __enter__(self) -> "Checkpoints":
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            self.wait()
        except Exception as failure:
            if kind is None:
                raise
            log.warning("the last checkpoint was not written: %s", failure)
        finally:
            assert self._thread is not None
            self._thread.shutdown()
            self._thread = None

    def wait(self) -> None:
        """Wait until a checkpoint in progress is on disk; raise its error if the write failed."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def check(self) -> None:
        """Raise the error of a write in the background, if it has failed."""
        if self._under_way is not None and self._under_way.done():
            self.wait()

    def save(
        self,
        trainer: Trainer,
        profile: TextProfile,
        provenance: dict[str, Any],
        *,
        at_once: bool = False,
    ) -> None:
        """Save everything; called by all ranks, written by the main one.

        Inside the context, this returns as soon as everything is copied, unless `at_once`. It first
        waits until an earlier checkpoint is complete.
        """
        world = trainer.world
        self.wait()
        trainer.check_divergence()
        state = trainer.all_lanes(everywhere=False)
        nats = world.gather(trainer.nats)  # [ranks]
        optimizers = flatten_optimizers(trainer.optimizers)
        differ = trainer.exchange.optimizers_differ
        if not world.is_main:
            if differ:
                send_to_main(optimizers, world)
            return
        carried = {
            **state.tensors(),
            "row_nats": nats.view(1, -1, 1),
            "row_overflows": trainer.overflows,
            "random_state": torch.get_rng_state(),
        }
        step, description = trainer.progress.step, self._description(trainer)

        def write(
            weights: Mapping[str, Tensor],
            optimizers: Iterable[Mapping[str, Tensor]],
            carried: Mapping[str, Tensor],
        ) -> None:
            model, tokenizer = trainer.model, self.tokenizer
            with self.writing(step, description) as partial:
                save_model(
                    partial, model, profile, provenance, tokenizer=tokenizer, weights=weights
                )
                for index, tensors in enumerate(optimizers):
                    save_tensors(partial / optimizer_file(index), tensors)
                save_tensors(partial / LANES_FILE, carried)

        weights = trainer.model.state_dict()
        # Other ranks' states arrive one at a time: the main rank cannot hold all of them.
        if self._thread is None or at_once or differ:
            write(weights, every_ranks(optimizers, world) if differ else [optimizers], carried)
        else:
            copies = (_copied(weights), [_copied(optimizers)], _copied(carried))
            self._under_way = self._thread.submit(write, *copies)

    def _description(self, trainer: Trainer) -> dict[str, Any]:
        each = {"format_version": self.FORMAT_VERSION, "optimizer_states": trainer.world.size}
        return {
            **(each if trainer.exchange.optimizers_differ else {"format_version": 1}),
            "corpus": self.corpus_fingerprint,
            "settings": trainer.saved_settings,
            "progress": trainer.progress.as_json(),
            "loss_scaler": trainer.scaler.state_dict(),
        }

    def check_corpus(self, world: World) -> None:
        """Raise InputError, on every rank, if the newest checkpoint is of another corpus."""

        def check() -> None:
            for newest in self.complete()[-1:]:
                self._describe_of_corpus(newest)

        run_on_main(world, check)

    def _describe_of_corpus(self, folder: Path) -> tuple[dict[str, Any], Path]:
        with advice_if_damaged(folder):
            check_unchanged(folder, TRAINING_FILE)
            content, path = self.describe(folder)
        if content.get("corpus") != self.corpus_fingerprint:
            raise InputError(
                f"{path}: was trained on another corpus ({content.get('corpus')}, now "
                f"{self.corpus_fingerprint}); name that one with --data.corpus or start a new run"
            )
        return content, path

    def restore(self, trainer: Trainer) -> None:
        """Load the newest checkpoint into the trainer, on every rank.

        Loads nothing if the run ended before its first checkpoint: it then starts over. Raises
        InputError, on every rank, if a part of the checkpoint does not fit the model or the config.
        """
        step = int(run_on_main(trainer.world, lambda: newest_step(self.folder)))
        if not step:
            return
        folder = step_folder(self.folder, step)
        await_visible(folder)
        with advice_if_damaged(folder):
            run_on_main(trainer.world, lambda: check_unchanged(folder))
            architecture = read_json(folder / CONFIG_FILE).get("architecture", {})
        content, path = self._describe_of_corpus(folder)
        with named_faults(folder):
            _check_fits(trainer, architecture, content, path)
        with advice_if_damaged(folder):
            _restore_trainer(trainer, folder, content, path)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in the memory of the CPU, which later steps do not change."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def _check_fits(
    trainer: Trainer, architecture: Mapping[str, Any], content: Mapping[str, Any], path: Path
) -> None:
    """Raise InputError for settings in config.toml that an intact checkpoint contradicts.

    Removing the checkpoint would not help: earlier ones contradict the settings, too. architecture:
    of its model. content: the checkpoint's description, of the file `path`; those before December
    2026 have no settings.
    """
    states = trainer.world.size if trainer.exchange.optimizers_differ else 1
    saved = content.get("optimizer_states", 1)
    if not isinstance(saved, int) or saved < 1:
        raise InputError(f"{path}: optimizer_states is {saved!r}; it should be a number")
    if saved != states:
        raise InputError(
            f"{path}: under Adasum each rank has its own optimiser state; the checkpoint has "
            f"{saved}, this run {states}; start {saved} processes"
        )
    before = _of_model(architecture)
    before |= content.get("settings", {})
    now = _of_model(trainer.model.config.architecture()) | trainer.saved_settings
    different = [
        f"{name} is {value}, was {before[name]}"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if different:
        config = PretrainingDirectory(path.parent.parent.parent).config
        values = "value" if len(different) == 1 else "values"
        raise InputError(
            f"{config}: differs from what {path.parent.name} was saved with: "
            f"{', '.join(different)}; put the old {values} back"
        )


def _of_model(architecture: Mapping[str, object]) -> dict[str, object]:
    return {f"model.{name}": value for name, value in architecture.items()}


def _restore_trainer(
    trainer: Trainer, folder: Path, content: Mapping[str, Any], path: Path
) -> None:
    """Load a checkpoint; InputError if a part of it does not fit the model or the config.

    content, path: as for `_check_fits`.
    """
    progress, exchange = content.get("progress"), trainer.exchange
    optimizer = optimizer_file(trainer.world.rank if exchange.optimizers_differ else 0)
    trainer.progress = PretrainingProgress.from_json(progress, step_of(folder), path)
    if scaling := content.get("loss_scaler"):
        kept = {name: scaling[name] for name in ("scale", "_growth_tracker")}
        trainer.scaler.load_state_dict(trainer.scaler.state_dict() | kept)
    restore_weights(trainer.model, folder / WEIGHTS_FILE, _CONFIG)
    restore_optimizers(trainer.optimizers, folder / optimizer)
    _restore_carried(trainer, folder / LANES_FILE)


def _restore_carried(trainer: Trainer, path: Path) -> None:
    # The first checkpoints of format version 1 did not count overflows.
    carried = {"row_overflows": trainer.overflows, **load_tensors(path)}
    check_tensors(path, carried, _expected_carried(trainer, carried), _CONFIG)
    trainer.load_lanes(State(**{name: carried[name] for name in trainer.state.tensors()}))
    trainer.restore_nats(carried["row_nats"].flatten())
    trainer.overflows.copy_(carried["row_overflows"])
    torch.set_rng_state(carried["random_state"])


def _expected_carried(trainer: Trainer, carried: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without content, with the expected shapes and dtypes.

    Two things are taken from `carried`, since a resume may change them: the number of ranks, and
    the dtype of the products, by starting or stopping loss scaling.
    """
    row_nats = carried.get("row_nats")
    dtype = State.dtype_of_products(carried) or trainer.model.dtype
    ranks = row_nats.numel() if row_nats is not None else 1
    meta = torch.device("meta")
    return {
        **trainer.model.initial_state(trainer.lanes, dtype=dtype, device=meta).tensors(),
        "row_nats": torch.empty((1, max(ranks, 1), 1), dtype=torch.float64, device=meta),
        "row_overflows": trainer.overflows,
        "random_state": torch.get_rng_state(),
    }
