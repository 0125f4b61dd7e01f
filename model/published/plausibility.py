"""Checks that imported weights were read correctly: how well they predict plain English."""

import numpy as np
import torch

from ..inference.scoring import token_costs
from ..layers.language_model import LanguageModel

PLAUSIBLE_BITS = 3.0  # a trained model is below 2; single letters by their frequency cost 4.2
IDENTITY_TOLERANCE = 1e-3  # relative to the largest gain; the released ones agree to about 1e-5
FRAME = b"\n "  # both codes put this before a review
# Our own words, in the style of the reviews that the published models have read. For a big model,
# passages in one batch take a quarter of the time of one long text.
PLAIN_ENGLISH = (
    "I bought this for my son and he loves it. It works very well and the price was right. We have "
    "used it every day for two months, and it still looks like new.",
    "This is a good book, but the story was a little slow in the beginning. I would have liked to "
    "know more about the people in it. Still, I could not put it down.",
    "The first one that I got did not work at all, so I had to send it back. The second one was "
    "not much better. Do not waste your time and money on this product.",
    "I have been looking for something like this for a long time. It is easy to use and it does "
    "what it says. I would recommend it to anyone who needs one at home.",
)


def bits_on_plain_english(model: LanguageModel) -> float:
    """Return bits per character on a few plain sentences, each passage from the zero state."""
    sequences = [np.frombuffer(FRAME + text.encode(), dtype=np.uint8) for text in PLAIN_ENGLISH]
    costs: list[np.ndarray] = []
    for _, batch in token_costs(model, sequences, batch_size=len(sequences)):
        costs += (cost[len(FRAME) :] for cost in batch)
    return float(np.concatenate(costs).mean())


def gains_differ(model: LanguageModel) -> float:
    """Return how much the gains of w_mx and w_mh differ, relative to the largest.

    m is the product of the two, so both gains of a unit get the same gradient; in OpenAI's
    release, files 11 and 12, they agree to rounding. Without weight norm a gain is its row's norm.
    """
    state = model.state_dict()
    gains = []
    for name in ("mx", "mh"):
        gain = state.get(f"layers.0.g_{name}")
        gains.append(state[f"layers.0.w_{name}"].norm(dim=1) if gain is None else gain.abs())
    largest = torch.maximum(*gains).max().clamp_min(torch.finfo(torch.float32).tiny)
    return float((gains[0] - gains[1]).abs().max() / largest)
