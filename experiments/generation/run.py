"""Let a model write with its sentiment unit clamped; judge the texts by models that did not write.

python -m experiments.generation.run --model amazon_1024 --reader stars_1024 --data DATA \\
    --output written.json
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from configs import command
from data_utils.provenance import describe_origin
from data_utils.published_sets.registry import SETS
from experiments.studies import tested
from model.classifiers.fitted import own_classifier
from model.files.storage import write_json
from model.files.weights import LoadedModel, load_model
from model.sampling import Clamp, SamplingConfig, generate
from model.scoring import token_costs
from transfer.experiment import describe_model
from transfer.regression import accuracy_interval

# What the unit is clamped to; above 0 positive, whatever its sign in the model.
VALUES = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
SAMPLES = 40  # texts for each prompt and value
SAMPLING = SamplingConfig(temperature=0.7, length=250, seed=0)
PROMPTS = ("", "I bought this", "The story", "My daughter", "It came in the mail")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Let a model write with its unit clamped to several values, and judge what it wrote."""

    model: str = "amazon_1024"
    """Who writes: a shipped model, a model directory or a run directory, with a classifier."""
    reader: str = "stars_1024"
    """Another model, which says how many bits a character of the texts costs it."""
    data: Path
    """The folder that holds imdb/, from which the judge learns."""
    output: Path
    """The JSON file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    writer, reader = (
        load_model(name, compute_dtype=torch.float32) for name in (options.model, options.reader)
    )
    judge, known = learn_judge(options.data)
    own = own_classifier(writer, -1)
    rows = [judged(writer, reader, judge, None)]
    for value in VALUES:
        clamp = Clamp(unit=own.neuron, cell=own.polarity * value)
        rows.append({"value": value, **judged(writer, reader, judge, clamp)})
        print(f"clamped to {value:+g}: {rows[-1]['positive']:.3f} positive")
    result = {
        "unit": own.neuron,
        "polarity": own.polarity,
        "prompts": list(PROMPTS),
        "settings": {"values": VALUES, "samples": SAMPLES, **asdict(SAMPLING)},
        "judge": known,
        "rows": rows,
        "model": describe_model(writer),
        "reader": describe_model(reader),
        "origin": describe_origin(),
    }
    write_json(options.output, result)


def learn_judge(data: Path) -> tuple[Pipeline, dict[str, Any]]:
    """Return a regression on words, fitted to IMDB, and its accuracy there."""
    train, _, test = SETS["imdb"].read(data).sets
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=5, sublinear_tf=True)
    judge = make_pipeline(words, LogisticRegression(C=4.0, max_iter=300))
    judge.fit(train.texts, train.labels)
    return judge, tested(float(judge.score(test.texts, test.labels)), len(test.labels))


def judged(
    writer: LoadedModel, reader: LoadedModel, judge: Pipeline, clamp: Clamp | None
) -> dict[str, Any]:
    """Return how many of the texts are positive, and their bits per character to the reader."""
    texts = [text for prompt in PROMPTS for text in write(writer, prompt, clamp)]
    positive = judge.predict_proba(texts)[:, 1]
    bits, error = bits_per_character(reader, texts)
    share = float((positive > 0.5).mean())
    return {
        "texts": len(texts),
        "positive": share,
        "positive_interval": accuracy_interval(share, len(texts)),
        "mean_probability": float(positive.mean()),
        "bits_per_character": bits,
        "bits_standard_error": error,
        "distinct_words": distinct_words(texts),
    }


def write(writer: LoadedModel, prompt: str, clamp: Clamp | None) -> list[str]:
    """Return the texts that the model writes from a prompt, which they begin with."""
    texts = [prompt] * SAMPLES
    opening = writer.profile.opening(prompt)
    for sample, characters in generate(
        writer.model, opening, SAMPLING, samples=SAMPLES, clamp=clamp, tokenizer=writer.tokenizer
    ):
        texts[sample] += characters
    return [text.strip() for text in texts]


def bits_per_character(reader: LoadedModel, texts: Sequence[str]) -> tuple[float, float]:
    """Return the mean over texts of their bits per character, and its standard error."""
    sequences = [reader.tokens(text) for text in texts]
    each = np.empty(len(texts))
    for rows, costs in token_costs(reader.model, sequences, batch_size=128):
        for row, cost in zip(rows, costs, strict=True):
            each[row] = cost.sum() / reader.tokenizer.byte_lengths(sequences[row]).sum()
    return float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5)


def distinct_words(texts: Sequence[str]) -> float:
    """Return the fraction of distinct words; it is low where a model repeats itself."""
    words = [word for text in texts for word in text.lower().split()]
    return len(set(words)) / max(len(words), 1)


if __name__ == "__main__":
    command.run(main)
