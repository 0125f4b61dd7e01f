"""A split in bits per character, the best model of a run by it, and what the run is worth.

Bits are counted per byte of text, whatever the tokens, and summed over ranks.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from data_utils.corpus import Corpus
from mlstm_sentiment.bounds import PositiveInt, check_bounds
from mlstm_sentiment.errors import NOTHING_WORTH_KEEPING, InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import Split, cut_strips
from model.inference.tensors import save_model
from model.layers.language_model import LanguageModel

from .checkpoint import Checkpoints
from .judgement import Baselines, Verdict, worth
from .parallel.distributed import WaitingTogether, World, never, run_on_main
from .precision import sums_in_fp32
from .run_log import print_main
from .run_plan import Characters
from .runs.run_directory import PretrainingDirectory, read_rows
from .trainer import Diverged, Trainer


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """When and how the valid split is scored during training."""

    DEFAULT_STEPS: ClassVar[int] = 200
    EXCLUSIVE: ClassVar = ("every_steps", "every_characters")

    every_steps: PositiveInt | None = None
    """Steps between evaluations; the run also ends with one. Default: 200, unless
    every_characters is given."""
    every_characters: Characters | None = None
    """Characters of text between evaluations, such as 8e6, instead of steps."""
    lanes: PositiveInt = 64
    """Streams into which the split is cut. They are scored in parallel, each from the zero state,
    and carry the state from review to review."""
    probe_train: Path | None = None
    """Labelled texts of two classes. Every evaluation fits two regressions on these texts, one on
    the mean state and one on the last state, and finds the unit whose mean predicts the classes
    best."""
    probe_val: Path | None = None
    """Labelled texts on which to score the regression and the unit."""

    def __post_init__(self) -> None:
        check_bounds(self, "evaluate.")
        if (self.probe_train is None) != (self.probe_val is None):
            raise InputError(
                "evaluate.probe_train and evaluate.probe_val need each other; name both"
            )


def evaluate_split(
    model: LanguageModel,
    split: Split,
    *,
    lanes: int,
    world: World,
    is_time_up: Callable[[], bool] = never,
) -> tuple[float, int]:
    """Return (bits per character, characters) of a split that all ranks score together.

    The split is cut into `lanes` strips, whatever the number of ranks. Each strip is scored in file
    order, with the state carried from review to review. Raises TimeIsUp, on every rank, once it is
    up on one of them.
    """
    from model.inference.features import read  # only once there is something to score

    own = cut_strips(split, lanes)[world.rank :: world.size]
    together = WaitingTogether(world, is_time_up)

    with sums_in_fp32():
        reading = read(
            model, own, bits=True, batch_size=lanes, advance=lambda tokens: together.working()
        )
        bits = math.fsum(() if reading.bits is None else reading.bits.tolist())
    together.finished()
    characters = sum(split.tokenizer.count_bytes(piece) for piece in own)
    totals = world.sum(torch.tensor([bits, characters], dtype=torch.float64, device=world.device))
    return float(totals[0] / totals[1]), int(totals[1])


class BestModelWriter:
    """Evaluates, and writes `model/` when the score is the best so far and beats unigrams.

    All ranks call it together.
    """

    def __init__(
        self, trainer: Trainer, directory: PretrainingDirectory, corpus: Corpus, lanes: int
    ):
        """Raise InputError now, not at the first evaluation, if valid cannot be scored."""
        from data_utils.provenance import describe_origin

        self.trainer, self.directory, self.lanes = trainer, directory, lanes
        self.valid = corpus.splits["valid"]
        self.profile = text_profile(corpus.text_profile)
        self.corpus = corpus
        self.origin = describe_origin() if trainer.world.is_main else {}  # which writes it
        self.verdict: Verdict | None = None  # of the last score: what it is worse than
        try:
            if self.valid.reviews:
                cut_strips(self.valid, self.lanes)
        except InputError as error:
            raise InputError(
                f"the corpus's valid split cannot be scored: {error}; use --split to give it a "
                "larger part of the corpus, or none"
            ) from error
        train = corpus.splits["train"]
        self.baselines = Baselines.of(train, self.valid if self.valid.reviews else train)

    def forget_lost_model(self) -> None:
        """Forget the best score if its model is gone.

        After a kill, the model may also come from an evaluation after the newest checkpoint. The
        next evaluation then replaces it by the model of the repeated steps.
        """
        progress = self.trainer.progress
        is_kept = _has_score(self.directory.model, progress.best_bits_per_character)
        if not self.trainer.world.broadcast_int(is_kept):
            progress.best_bits_per_character = None

    def evaluate(self, is_time_up: Callable[[], bool] = never) -> dict[str, Any]:
        """Score the valid split, write the model if it is the best so far.

        Returns the score, and what it is worse than, if it does not beat unigrams. Raises TimeIsUp.
        """
        trainer, model = self.trainer, self.trainer.model
        trainer.check_divergence()
        if not self.valid.reviews:
            return {}
        model.eval()
        bits, _ = evaluate_split(
            model, self.valid, lanes=self.lanes, world=trainer.world, is_time_up=is_time_up
        )
        model.train()
        if not math.isfinite(bits):
            raise trainer.diverged("the loss on the valid split is")
        best = trainer.progress.best_bits_per_character
        self.verdict = self.baselines.verdict(bits)
        if self.verdict is not None:
            return {"valid_bits_per_character": bits, "verdict": self.verdict.text}
        if best is None or not best <= bits:  # an old checkpoint's best may be NaN
            trainer.progress.best_bits_per_character = bits
            self.publish()
        return {"valid_bits_per_character": bits}

    def publish(self) -> None:
        """Replace `model/` by the current weights."""
        trainer = self.trainer
        if trainer.world.is_main:
            score = {"best_valid_bits_per_character": trainer.progress.best_bits_per_character}
            provenance = self.provenance() | score
            with self.directory.replacing_model() as partial:
                tokenizer = self.corpus.tokenizer
                save_model(partial, trainer.model, self.profile, provenance, tokenizer=tokenizer)

    def provenance(self) -> dict[str, Any]:
        """Return the origin of the weights, to be saved with them; the best score is not in it."""
        progress = self.trainer.progress
        before = {"began_from": progress.began_from} if progress.began_from else {}
        verdict = {"verdict": self.verdict.text} if self.verdict else {}
        return {
            "step": progress.step,
            "characters": progress.characters,
            "corpus": self.corpus.fingerprint,
            "unigram_bits_per_character": self.baselines.unigrams,
            **verdict,
            **before,
            **self.origin,
        }

    @contextmanager
    def advising_restart(self, checkpoints: Checkpoints) -> Iterator[None]:
        """If training diverges, name the newest checkpoint in the error.

        That checkpoint precedes the divergence, since only finite values are ever saved.
        """
        try:
            yield
        except Diverged as error:
            saved = checkpoints.complete()
            advice = "no earlier checkpoint was saved"
            if saved:
                advice = f"--train.start_from {saved[-1]} begins with the earlier weights"
            raise InputError(f"{error}; {advice}") from error

    def finish(self) -> int:
        """Say what the run is worth, and where its model is; return the exit code.

        Without a model that beats unigrams there is none: the exit code is 3. Without a valid
        split, the last row's training loss decides, and the model has the last weights.
        """
        world, progress = self.trainer.world, self.trainer.progress
        if progress.best_bits_per_character is None:
            if self.verdict is None:  # else the last row has scored these weights
                self.evaluate()
            if not self.valid.reviews:
                recent = progress.recent_bits
                self.verdict = self.baselines.verdict(recent[-1]) if recent else None
                if self.verdict is None:
                    self.publish()
            if self.verdict is not None:
                cure = self.trainer.divergence if self.verdict.diverged else "train longer"
                print_main(world, f"no model: the last one is {self.verdict.text}; {cure}")
                return NOTHING_WORTH_KEEPING
        if progress.best_bits_per_character is not None:
            print_main(
                world, f"valid {progress.best_bits_per_character:.4f} bits per character at best"
            )
        metrics = self.directory.metrics
        summary = run_on_main(world, lambda: worth(read_rows(metrics), self.baselines))
        print_main(world, f"model: {self.directory.model}\n{summary}")
        return 0


def _has_score(model: Path, bits: float | None) -> bool:
    """Return whether a model exists and records this score as the best."""
    with suppress(InputError):
        provenance = read_json(model / CONFIG_FILE).get("provenance")
        if isinstance(provenance, dict) and bits is not None:
            return bits == provenance.get("best_valid_bits_per_character")
    return False
