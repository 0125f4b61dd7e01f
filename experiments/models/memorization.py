"""Test whether a model recites its training text: it continues prompts from reviews greedily.

python -m experiments.models.memorization --model amazon_1024 --corpus data/reviews \\
    --output experiments/models/results/memorization_amazon_1024.json
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from configs import command
from data_utils.corpus import open_corpus
from data_utils.provenance import describe_origin
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tokenizers import check_same_tokenizer
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.text.split import Split
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.weights import load_model
from model.layers.language_model import LanguageModel

PROMPT = 50  # bytes of a prompt, and of its continuation; about as many with subword tokens
EXAMPLES_KEPT = 5
PROMPTS = 2000  # reviews from each split
SEED = 0  # draws the reviews and the places in them


@dataclass(frozen=True, kw_only=True)
class Options:
    """Count how often the greedy continuation of a prompt equals the review."""

    model: Model = "default"
    corpus: Path
    """The model's training corpus, in its tokens; the test split serves as comparison."""
    output: Path
    """The JSON file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    corpus = open_corpus(options.corpus)
    check_same_tokenizer(options.corpus, corpus.tokenizer, loaded.tokenizer, "the model's")
    size = round(PROMPT / corpus.characters_per_token)  # tokens
    result = {name: recited(loaded.model, corpus.splits[name], size) for name in ("train", "test")}
    for name, row in result.items():
        print(f"{name:<6} {row['exact']} of {row['prompts']} whole, mean {row['mean_prefix']:.2f}")
    token = "bytes" if loaded.tokenizer is BYTES else "pieces"
    facts = {f"prompt_{token}": size, f"continuation_{token}": size, "seed": SEED}
    write_json(options.output, {**result, **facts, "origin": describe_origin()}, "a result")


def recited(model: LanguageModel, split: Split, size: int) -> dict[str, Any]:
    """Return how closely greedy continuations of passages, `size` tokens each, follow the text."""
    passages = sample_passages(split, PROMPTS, SEED, 2 * size)  # [N, 2 size]
    prompt = torch.from_numpy(passages[:, :size].astype(np.int64))
    return likeness(greedy(model, prompt, size).numpy(), passages[:, size:])


def likeness(written: np.ndarray, text: np.ndarray) -> dict[str, Any]:
    """Return how many rows equal the text, [N, size], and how many leading tokens agree."""
    same = written == text
    prefix = np.where(same.all(1), text.shape[1], same.argmin(1))
    longest = np.argsort(-prefix, kind="stable")[:EXAMPLES_KEPT]
    return {
        "prompts": len(text),
        "exact": int(same.all(1).sum()),
        "mean_prefix": float(prefix.mean()),
        "longest_prefixes": prefix[longest].tolist(),
    }


def sample_passages(split: Split, count: int, seed: int, size: int = 2 * PROMPT) -> np.ndarray:
    """Draw reviews that are long enough, and a passage of `size` tokens of each, [N, size]."""
    offsets = np.asarray(split.offsets)
    long_enough = np.flatnonzero(np.diff(offsets) >= size)
    if not len(long_enough):
        raise InputError(
            f"--corpus: train or test has no review of {size} tokens or more; use another corpus"
        )
    random = np.random.default_rng(seed)
    reviews = random.permutation(long_enough)[:count]
    starts = [random.integers(offsets[r], offsets[r + 1] - size + 1) for r in reviews]
    return np.stack([split.tokens[start : start + size] for start in starts])


@torch.inference_mode()
def greedy(model: LanguageModel, prompt: Tensor, count: int) -> Tensor:
    """Return the `count` likeliest next tokens, one by one, after prompt [N, P]: [N, count]."""
    weights = model.prepare_weights()
    logits, state = model(prompt, model.initial_state(len(prompt)), weights)
    written = [logits[:, -1].argmax(1)]
    while len(written) < count:
        logits, state = model(written[-1][:, None], state, weights)
        written.append(logits[:, -1].argmax(1))
    return torch.stack(written, dim=1)


if __name__ == "__main__":
    command.run(main)
