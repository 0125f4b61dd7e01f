"""The best model of a run by its validation score."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from data_utils.corpus import Corpus
from model.errors import InputError
from model.files.shipped import CONFIG_FILE
from model.files.storage import read_json, whole_folder
from model.files.weights import save_model
from model.text.profiles import text_profile
from model.text.split import cut_strips

from .checkpoint import Checkpoints
from .console import print_main
from .evaluation import evaluate_split
from .parallel.distributed import World
from .runs.run_directory import PretrainingDirectory
from .trainer import Diverged, Trainer


class BestModelWriter:
    """Evaluates, and writes `model/` when the score is the best so far."""

    def __init__(self, directory: PretrainingDirectory, corpus: Corpus, lanes: int, world: World):
        """Raise InputError now, not at the first evaluation, if valid cannot be scored."""
        from data_utils.provenance import describe_origin

        self.directory, self.world, self.lanes = directory, world, lanes
        self.valid = corpus.splits["valid"]
        self.profile = text_profile(corpus.text_profile)
        self.corpus = corpus
        self.origin = describe_origin()
        try:
            if self.valid.reviews:
                cut_strips(self.valid, self.lanes)
        except InputError as error:
            raise InputError(
                f"the corpus's valid split cannot be scored: {error}; use --split to give it a "
                "larger part of the corpus, or none"
            ) from error

    def forget_lost_model(self, trainer: Trainer) -> None:
        """Forget the best score if its model is gone.

        After a kill, the model may also come from an evaluation after the newest checkpoint. The
        next evaluation then replaces it by the model of the repeated steps.
        """
        best = trainer.progress.best_bits_per_character
        if not self.world.broadcast_int(_has_score(self.directory.model, best)):
            trainer.progress.best_bits_per_character = None

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        """Score the valid split, write the model if it is the best so far; return the scores."""
        trainer.check_divergence()
        if not self.valid.reviews:
            return {}
        model = trainer.model
        model.eval()
        bits, _ = evaluate_split(model, self.valid, lanes=self.lanes, world=self.world)
        model.train()
        if not math.isfinite(bits):
            raise trainer.diverged("the loss on the valid split is")
        best = trainer.progress.best_bits_per_character
        if best is None or not best <= bits:  # an old checkpoint's best may be NaN
            trainer.progress.best_bits_per_character = bits
            self.publish(trainer)
        return {"valid_bits_per_character": bits}

    def publish(self, trainer: Trainer) -> None:
        """Replace `model/` by the current weights."""
        if self.world.is_main:
            score = {"best_valid_bits_per_character": trainer.progress.best_bits_per_character}
            provenance = self.provenance(trainer) | score
            with whole_folder(self.directory.model, self.directory.MODEL_FILES) as partial:
                tokenizer = self.corpus.tokenizer
                save_model(partial, trainer.model, self.profile, provenance, tokenizer=tokenizer)

    def provenance(self, trainer: Trainer) -> dict[str, Any]:
        """Return the origin of the weights, to be saved with them; the best score is not in it."""
        progress = trainer.progress
        before = {"began_from": progress.began_from} if progress.began_from else {}
        return {
            "step": progress.step,
            "characters": progress.characters,
            "corpus": self.corpus.fingerprint,
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

    def finish(self, trainer: Trainer) -> None:
        """Write a model if there is no best one; print its path and, for a best one, its score."""
        if trainer.progress.best_bits_per_character is None:
            self.evaluate(trainer)
        best = trainer.progress.best_bits_per_character
        if best is None:
            self.publish(trainer)
        else:
            print_main(self.world, f"valid {best:.4f} bits per character at best")
        print_main(self.world, f"model: {self.directory.model}")


def _has_score(model: Path, bits: float | None) -> bool:
    """Return whether a model exists and records this score as the best."""
    with suppress(InputError):
        provenance = read_json(model / CONFIG_FILE).get("provenance")
        if isinstance(provenance, dict) and bits is not None:
            return bits == provenance.get("best_valid_bits_per_character")
    return False
