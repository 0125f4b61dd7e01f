"""What single units hold once the model has to speak: the state after a text and a prompt.

python -m experiments.features.prompts --model amazon_1024 --data DATA \\
    --output experiments/features/results/amazon_1024_prompts.json \\
    --figure experiments/features/prompts.png

A text has no sentiment to the model as long as the next byte does not depend on it. The corpus ends
reviews with ` | ` and their title, most of which praise or blame. The prompts are beginnings of a
title; two others leave the review as it is, or begin a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from configs import command
from data_utils.published_sets.registry import SETS
from experiments.features.axes import right_by_best
from experiments.features.fits import WAYS
from experiments.features.run import by_part, read_sets, told
from experiments.features.sets import OneModelOnSets, measure_sets
from experiments.features.titles import BATCH_SIZE, BLOCK, read_batch
from experiments.studies import tested
from model.files.storage import write_json
from model.files.weights import LoadedModel
from model.language_model import LanguageModel, Weights
from model.reading.progress import ProgressBar
from model.state import State
from model.text.ragged import ragged_batches
from transfer.intervals import paired_difference
from transfer.plots import STYLE, save_png
from transfer.regression import Examples
from transfer.separation import areas_under_curve

# What follows the text and the space after it, by what it means.
PROMPTS = {
    "nothing": "",
    "the review goes on": "I ",
    "a new review": "\n ",
    "a title": "| ",
    "a title, A": "| A ",
    "a title, I": "| I ",
    "a title, Very": "| Very ",
    "a title, It was": "| It was ",
}
CLEAR = 0.75  # area under the curve, on train, from which a unit tells sentiment
SHOWN = 100  # units in the figure
CLEAREST = 20  # units that are named


@dataclass(frozen=True, kw_only=True)
class Options(OneModelOnSets):
    """Measure the units of one model after texts and prompts, on SST, MR and a part of IMDB."""

    figure: Path | None = None
    """The figure to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    found = measure_sets(options, lambda name, loaded: measure(name, loaded, options))
    write_json(options.output, {"prompts": PROMPTS, **found})
    if options.figure is not None:
        save_png(draw(found["sets"]), options.figure)


def measure(name: str, loaded: LoadedModel, options: Options) -> dict[str, Any]:
    """Return what the units of the state after each prompt tell of a set."""
    sets = read_sets(name, options.data, options.most_texts, options.seed)
    texts = [text for part in sets for text in part.texts]
    after, right = {}, {}
    for title, states in cells_after(loaded, texts, PROMPTS).items():
        parts = zip(by_part(states, sets), sets, strict=True)
        after[title], right[title] = units_of([Examples(part, s.labels) for part, s in parts])
        print(f"{name:<5} {title:<20} {after[title]['best_unit']}", flush=True)
    for title, row in after.items():
        # What would be lost by taking the best unit after the bare text instead.
        row["best_unit"]["ahead"] = paired_difference(right[title], right["nothing"])
    return {"examples": [len(part.labels) for part in sets], "after": after}


def units_of(examples: Sequence[Examples]) -> tuple[dict[str, Any], np.ndarray]:
    """Return what units tell of test, and which of its texts the best unit on train has right.

    examples: train, val, test. best_unit: what the best unit on train tells of test; all_units:
    what the regression on all tells of it. clear: the number of units whose area on train is CLEAR
    or more, in either direction; areas: those of the clearest units, of which `clearest` names the
    first. The texts: bool [N].
    """
    train, _, test = examples
    areas = areas_under_curve(train.features, train.labels == 1)
    clearness = 0.5 + np.abs(areas - 0.5)
    order = np.argsort(-clearness, kind="stable")
    best, right = right_by_best(train, test)
    (area,) = areas_under_curve(test.features[:, [best]], test.labels == 1)
    accuracy = tested(float(right.mean()), len(right))
    found = {
        "best_unit": {"axis": best, **accuracy, "test_area": float(0.5 + abs(area - 0.5))},
        "clear": int((clearness >= CLEAR).sum()),
        "clearest": order[:CLEAREST].tolist(),
        "areas": clearness[order[:SHOWN]].round(4).tolist(),
        "all_units": told(WAYS[0], list(examples)),
    }
    return found, right


@torch.inference_mode()
def cells_after(
    loaded: LoadedModel, texts: Sequence[str], prompts: dict[str, str]
) -> dict[str, np.ndarray]:
    """Return the last layer's cell state after each text and each prompt, float32 [N, H] each."""
    sequences = [tokens_of_text(loaded, text) for text in texts]
    size = loaded.model.config.hidden_size
    found = {title: np.empty((len(texts), size), np.float32) for title in prompts}
    weights = loaded.model.fold()
    with ProgressBar("read", sum(map(len, sequences))) as progress:
        for batch in ragged_batches(list(map(len, sequences)), BATCH_SIZE, BLOCK):
            state = read_batch(loaded.model, weights, sequences, batch)
            for title, prompt in prompts.items():
                tokens = tokens_of_prompt(loaded, prompt)
                cell = continued(loaded.model, weights, state, tokens).features("cell")[-1]
                found[title][batch.indices] = cell.cpu().numpy()
            progress.advance(sum(len(sequences[row]) for row in batch.indices))
    return found


def tokens_of_text(loaded: LoadedModel, text: str) -> np.ndarray:
    """Return a text's tokens; for pieces of words, which begin with a space, without its last."""
    if loaded.tokenizer.kind == "bytes":
        return loaded.tokens(text)
    return loaded.tokenizer.encode(loaded.profile.encode(text).removesuffix(b" "))


def tokens_of_prompt(loaded: LoadedModel, prompt: str) -> np.ndarray:
    """Return the tokens of a prompt, with the space that `tokens_of_text` has left out."""
    if loaded.tokenizer.kind == "bytes":
        return loaded.tokenizer.encode(prompt.encode())
    return loaded.tokenizer.encode(f" {prompt}".rstrip(" ").encode())


def continued(model: LanguageModel, weights: Weights, state: State, tokens: np.ndarray) -> State:
    """Return the state after the same tokens [n] in every lane."""
    if not len(tokens):
        return state
    rows = torch.from_numpy(tokens.astype(np.int64)).expand(state.lanes, -1)  # [B, n]
    _, state = model.hidden(rows.to(model.embedding.weight.device), state, weights)
    return state


@mpl.rc_context(STYLE)
def draw(found: dict[str, Any]) -> Figure:
    """Draw the areas of the clearest units, the clearest first: a panel for each set."""
    figure = Figure(figsize=(3.2 * len(found) + 1, 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (name, of_set) in zip(panels, found.items(), strict=True):
        for title, row in of_set["after"].items():
            axes.plot(np.arange(1, len(row["areas"]) + 1), row["areas"], label=title)
        axes.set(xlabel="unit, the clearest first", title=SETS[name].title, xscale="log")
    panels[0].set_ylabel("area under the curve, on train")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


if __name__ == "__main__":
    command.run(main)
