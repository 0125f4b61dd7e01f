"""What a model's state holds while it reads a text for the second time.

python -m experiments.features.twice --model amazon_1024 --data DATA \\
    --output experiments/features/results/amazon_1024_twice.json

The state after a word knows only what stands before that word. So the text is read again, straight
after itself: now the state knows all of it at every word. Springer et al. 2024 (Repetition Improves
Language Model Embeddings) did so with transformers, Arora et al. 2024 (Just Read Twice) with
recurrent models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from configs import command
from experiments.features.axes import right_by_best
from experiments.features.fits import WAYS
from experiments.features.prompts import tokens_of_prompt, tokens_of_text
from experiments.features.run import POOLINGS, by_part, read_sets, told
from experiments.features.sets import OneModelOnSets, measure_sets
from experiments.features.titles import BATCH_SIZE, BLOCK
from experiments.studies import tested
from model.files.storage import write_json
from model.files.weights import LoadedModel
from model.language_model import LanguageModel, Weights
from model.reading.progress import ProgressBar
from model.text.ragged import RaggedBatch, ragged_batches
from transfer.intervals import paired_difference
from transfer.regression import Examples

AGAIN = "{}, read again"  # a feature of the second reading, by the name of that of the first
ONCE = tuple(f"cell {pooling}" for pooling in POOLINGS)
BOTH = (*ONCE, *map(AGAIN.format, ONCE))
# Which poolings stand side by side, each of the first reading, of the second, and of both.
TOGETHER = (("cell mean",), ("cell last", "cell mean"), ONCE)


@dataclass(frozen=True, kw_only=True)
class Options(OneModelOnSets):
    """Compare the states of a first and a second reading, on SST, MR and a part of IMDB."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    found = measure_sets(options, lambda name, loaded: measure(name, loaded, options))
    write_json(options.output, found)


def measure(name: str, loaded: LoadedModel, options: Options) -> dict[str, Any]:
    """Return what single units, and regressions on all, tell of a set by each reading."""
    sets = read_sets(name, options.data, options.most_texts, options.seed)
    states = states_of_both(loaded, [text for part in sets for text in part.texts])
    features = {title: by_part(states[:, index], sets) for index, title in enumerate(BOTH)}
    labels = [part.labels for part in sets]

    def examples(*titles: str) -> list[Examples]:
        joined = [np.concatenate([features[t][part] for t in titles], axis=1) for part in range(3)]
        return [Examples(*pair) for pair in zip(joined, labels, strict=True)]

    rows = []
    for choice, way in product(chain(*trios()), WAYS[1:]):  # L1 on many features takes minutes
        rows.append({"features": choice, "fit": way.name, **told(way, examples(*choice))})
        print(f"{name:<5} {' + '.join(choice)}: {rows[-1]['test_accuracy']:.3f}", flush=True)
    units = {title: units_of(examples(title), examples(AGAIN.format(title))) for title in ONCE}
    return {"examples": list(map(len, labels)), "rows": rows, "units": units}


def trios() -> list[tuple[list[str], list[str], list[str]]]:
    """Return the features that are compared: of the first reading, of the second, and of both."""
    pairs = [(list(once), list(map(AGAIN.format, once))) for once in TOGETHER]
    return [(once, again, once + again) for once, again in pairs]


def units_of(once: Sequence[Examples], again: Sequence[Examples]) -> dict[str, Any]:
    """Return the best unit on train, by each reading, and its accuracy on test.

    ahead: how much the second is ahead of the first on the same texts.
    """
    found, right = [], []
    for train, _, test in (once, again):
        unit, is_right = right_by_best(train, test)
        found.append({"axis": unit, **tested(float(is_right.mean()), len(is_right))})
        right.append(is_right)
    return {"once": found[0], "again": found[1], "ahead": paired_difference(*reversed(right))}


class TextTwice(NamedTuple):
    """The tokens of a text that is read twice, and how many of them the first reading has."""

    tokens: np.ndarray  # [n]
    first: int


def text_twice(loaded: LoadedModel, text: str) -> TextTwice:
    """Return a text with its frame, and straight after it the same text without the prefix."""
    first = tokens_of_text(loaded, text)
    again = tokens_of_prompt(loaded, loaded.profile.clean(text) + loaded.profile.suffix)
    return TextTwice(np.concatenate([first, again]), len(first))


@torch.inference_mode()
def states_of_both(loaded: LoadedModel, texts: Sequence[str]) -> np.ndarray:
    """Return the last layer's cell states, pooled over each reading: float32 [N, 2 * 4, H].

    Those of the first reading come first, each in the order of POOLINGS.
    """
    twice = [text_twice(loaded, text) for text in texts]
    lengths = [len(text.tokens) for text in twice]
    weights = loaded.model.fold()
    found = np.empty((len(texts), len(BOTH), loaded.model.config.hidden_size), np.float32)
    with ProgressBar("read", sum(lengths)) as progress:
        for batch in ragged_batches(lengths, BATCH_SIZE, BLOCK):
            found[batch.indices] = pooled(loaded.model, weights, twice, batch)
            progress.advance(sum(lengths[row] for row in batch.indices))
    return found


def pooled(
    model: LanguageModel, weights: Weights, twice: Sequence[TextTwice], batch: RaggedBatch
) -> np.ndarray:
    """Return the pooled states of a batch's rows, float32 [rows, 2 * 4, H]."""
    chosen = [twice[row] for row in batch.indices]
    device = model.embedding.weight.device
    ends = torch.tensor([text.first for text in chosen], device=device)  # of the first
    state = model.initial_state(len(chosen))
    once, again = (Pools(len(chosen), model.config.hidden_size, device) for _ in range(2))
    for start, stop, active in batch.spans:
        rows = np.stack([text.tokens[start:stop] for text in chosen[:active]])
        tokens = torch.from_numpy(rows.astype(np.int64)).to(device)  # [active, T]
        state = state.select(slice(active))
        for place in range(start, stop):
            _, state = model.hidden(tokens[:, [place - start]], state, weights)
            is_first = place < ends[:active, None]  # [active, 1]
            cell = state.features("cell")[-1]
            once.add(cell, is_first)
            again.add(cell, ~is_first)
    return torch.cat([once.features(), again.features()], dim=1).cpu().numpy()


class Pools:
    """The states of some rows over one reading, in each of POOLINGS; rows begin at any token."""

    def __init__(self, rows: int, units: int, device: torch.device):
        def full(value: float) -> Tensor:
            return torch.full((rows, units), value, device=device)

        self._last, self._sum = full(0.0), full(0.0)
        self._max, self._min = full(-torch.inf), full(torch.inf)
        self._count = torch.zeros(rows, 1, device=device)

    def add(self, cell: Tensor, inside: Tensor) -> None:
        """Take the states [active, H] of the first rows, of those that are inside [active, 1]."""
        active = slice(len(cell))
        pools = (
            (self._last, cell),
            (self._sum, self._sum[active] + cell),
            (self._max, torch.maximum(self._max[active], cell)),
            (self._min, torch.minimum(self._min[active], cell)),
        )
        for pool, changed in pools:
            pool[active] = torch.where(inside, changed, pool[active])
        self._count[active] += inside

    def features(self) -> Tensor:
        """Return [rows, 4, H], in the order of POOLINGS."""
        return torch.stack([self._last, self._sum / self._count, self._max, self._min], dim=1)


if __name__ == "__main__":
    command.run(main)
