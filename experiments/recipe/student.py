"""Train a model on a text, and on what teachers expect to follow it, as main.py trains.

python -m experiments.recipe.student --teachers amazon_subword_1024 -- \\
    --config configs/cpu_subword_1024.toml --data.corpus data/pieces --run-dir runs/student

Options before `--` are these, those after it main.py's.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from configs import command
from data_utils.corpus import open_corpus
from data_utils.options import Model
from data_utils.provenance import describe_origin
from model.bounds import Fraction
from model.errors import InputError
from model.files.storage import write_json
from model.files.weights import load_model
from model.inference.scoring import token_costs
from model.layers.language_model import LanguageModel
from model.state import IGNORED, State
from model.text.split import Split, cut_strips
from training import trainer
from training.objective import Objective

LANES = 64


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train a student of one or several teachers; or say how well the teachers predict."""

    teachers: tuple[Model, ...]
    """Models of the corpus's vocabulary; the student learns the mean of their probabilities."""
    share: Fraction = 0.5
    """Fraction of the loss that is the teachers'; the rest is the text's."""
    bits_on: Path | None = None
    """Train nothing; measure the bits of the teachers' mean on the valid split of this corpus."""
    output: Path | None = None
    """The JSON file for these bits."""


class TaughtObjective(Objective):
    """A loss of text and teachers; it reports the nats of the text alone."""

    teachers: Sequence[LanguageModel] = ()
    share = 0.0
    states: list[State]

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor,
        state: State,
        dropout_factors: Tensor | None = None,
        *_: Any,
        **kw: Any,
    ) -> Any:
        """Return the nats, with the gradient of the loss, and the state after."""
        expected = self.expect(tokens, (state.c == 0).all(-1).all(0))
        weights = self.model.prepare_weights()
        h, state = self.model.hidden(tokens, state, weights)
        if dropout_factors is not None:
            h = h * dropout_factors
        logs = functional.log_softmax(self.model.decode(h, weights).flatten(0, 1), -1)
        targets = targets.t().flatten()
        plain = functional.nll_loss(logs, targets, reduction="sum", ignore_index=IGNORED)
        counts = (targets != IGNORED).to(logs.dtype)
        taught = -(torch.linalg.vecdot(logs, expected) * counts).sum()
        loss = ((1 - self.share) * plain + self.share * taught) * kw["gradient_scale"]
        return loss + (plain - loss).detach(), state

    @torch.no_grad()
    def expect(self, tokens: Tensor, begins: Tensor) -> Tensor:
        """Return the mean of the teachers' probabilities, [T B, V].

        begins: the lanes of a new shard, bool [B]; they read on from the zero state.
        """
        if not hasattr(self, "states"):
            self.states = [teacher.initial_state(len(tokens)) for teacher in self.teachers]
        total: Tensor | None = None
        for number, teacher in enumerate(self.teachers):
            weights = teacher.prepare_weights()
            state = self.states[number].reset(begins)
            h, self.states[number] = teacher.hidden(tokens, state, weights)
            each = teacher.decode(h, weights).flatten(0, 1).softmax(-1)
            total = each if total is None else total.add_(each)
        assert total is not None
        return total.div_(len(self.teachers))


def main() -> int | None:
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = command.parse(Options, __doc__, arguments=sys.argv[1:split])
    teachers = [
        load_model(name, compute_dtype=torch.bfloat16).model.eval() for name in options.teachers
    ]
    if options.bits_on is not None:
        if options.output is None:
            raise InputError("--bits-on needs --output, the file for the bits")
        command.prepare_output(options.output)
        bits = bits_of_mean(teachers, open_corpus(options.bits_on).splits["valid"])
        result = {"teachers": [Path(name).name for name in options.teachers], "bits": bits}
        write_json(options.output, {**result, "origin": describe_origin()})
        print(f"{bits:.4f} bits per character")
        return None
    sys.argv[1:] = sys.argv[split + 1 :]
    TaughtObjective.teachers, TaughtObjective.share = teachers, options.share
    trainer.Objective = TaughtObjective  # type: ignore[misc]
    import main as pretraining  # a command: importing it adapts the process

    return pretraining.main()


def bits_of_mean(models: Sequence[LanguageModel], split: Split) -> float:
    """Return the bits per character of the mean of the models' probabilities."""
    strips = cut_strips(split, LANES)
    chances = [np.zeros(len(strip)) for strip in strips]
    for model in models:
        for indices, costs in token_costs(model, strips, batch_size=LANES):
            for index, cost in zip(indices, costs, strict=True):
                chances[index] += np.exp2(-cost.astype(np.float64)) / len(models)
    bits = sum(-np.log2(each).sum() for each in chances)
    return float(bits / sum(split.tokenizer.count_bytes(strip) for strip in strips))


if __name__ == "__main__":
    command.run(main)
