"""Sentiment without labels, from the titles that a model expects after a text.

The model has read reviews that end with ` | ` and their title. The score of a text is the logarithm
of how much likelier the openings of positive titles are than those of negative ones.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import logsumexp

from data_utils.labelled import LabelledSet
from experiments.models.select_reviews import SEPARATOR
from experiments.neuron.fits import tested
from model.files.weights import LoadedModel
from model.layers.language_model import LanguageModel, Weights
from model.state import State
from model.text.split import RaggedBatch, ragged_batches

TITLE_MARK = SEPARATOR.rstrip()  # the text's profile adds the space that follows
BATCH_SIZE, BLOCK = 128, 128
PLEASED = ("Great", "Excellent", "Love", "Awesome", "Perfect", "Wonderful", "Very good")
DISPLEASED = ("Terrible", "Disappoint", "Waste", "Horrible", "Don't", "Poor", "Not")
OPENINGS = (PLEASED, DISPLEASED)


def score_titles(
    loaded: LoadedModel, val: LabelledSet, test: LabelledSet, most: int
) -> dict[str, Any]:
    """Return the accuracy of the titles' score on test, at zero and at its median on val.

    The median needs texts and no labels; it takes the classes to be of equal size.
    """
    cut = float(np.median(title_scores(loaded, val.texts[:most])))
    scores = title_scores(loaded, test.texts[:most])
    labels = test.labels[:most]
    return {
        "pleased": list(PLEASED),
        "displeased": list(DISPLEASED),
        "median_on_val": cut,
        "tested": len(labels),
        "at_zero": tested(float(((scores > 0) == labels).mean()), len(labels)),
        "at_median": tested(float(((scores > cut) == labels).mean()), len(labels)),
    }


def title_scores(
    loaded: LoadedModel, texts: Sequence[str], openings: Sequence[Sequence[str]] = OPENINGS
) -> np.ndarray:
    """Return float64 [N]: the log of the first over the second openings after each text."""
    chances = opening_chances(loaded, texts, [each for kind in openings for each in kind])
    pleased, displeased = np.split(chances, [len(openings[0])], axis=1)
    difference: np.ndarray = logsumexp(pleased, axis=1) - logsumexp(displeased, axis=1)
    return difference


def opening_chances(
    loaded: LoadedModel, texts: Sequence[str], openings: Sequence[str]
) -> np.ndarray:
    """Return the log of each opening's chance after each text, float64 [N, openings]."""
    # The profile ends every text with a space, which belongs to the opening: pieces of words begin
    # with it. The last token is read together with the opening that it predicts.
    framed = [loaded.profile.encode(text + TITLE_MARK)[:-1] for text in texts]
    sequences = [loaded.tokenizer.encode(text) for text in framed]
    chances = np.empty((len(texts), len(openings)))
    with torch.inference_mode():
        weights = loaded.model.prepare_weights()
        for batch in ragged_batches([len(row) - 1 for row in sequences], BATCH_SIZE, BLOCK):
            state = read_batch(loaded.model, weights, sequences, batch)
            last = torch.tensor([int(sequences[row][-1]) for row in batch.indices])  # [B]
            logs = [log_chances(loaded, weights, state, last, each) for each in openings]
            chances[batch.indices] = torch.stack(logs, dim=1).cpu().numpy()
    return chances


def read_batch(
    model: LanguageModel, weights: Weights, sequences: Sequence[np.ndarray], batch: RaggedBatch
) -> State:
    """Return the state after the tokens of each row that the spans of a batch cover."""
    state, ended = model.initial_state(len(batch.indices)), []
    for start, stop, active in batch.spans:
        ended.append(state.select(slice(active, None)))  # the shortest rows stand last
        tokens = np.stack([sequences[row][start:stop] for row in batch.indices[:active]])
        of_rows = torch.from_numpy(tokens.astype(np.int64)).to(model.embedding.weight.device)
        _, state = model.hidden(of_rows, state.select(slice(active)), weights)
    return State.join([state, *reversed(ended)])


def log_chances(
    loaded: LoadedModel, weights: Weights, state: State, last: torch.Tensor, opening: str
) -> torch.Tensor:
    """Return float64 [B]: the log of an opening's chance after a space.

    It is the chance of the opening's own tokens: of subwords, not of a longer piece that begins
    alike. state, last [B]: before each lane's last token, and that token.
    """
    own = torch.from_numpy(loaded.tokenizer.encode(f" {opening}".encode()).astype(np.int64))
    tokens = torch.cat([last[:, None], own.expand(state.lanes, -1)], dim=1)  # [B, n + 1]
    tokens = tokens.to(weights.b_out.device)
    logits, _ = loaded.model(tokens[:, :-1], state, weights)  # [B, n, V]
    nats = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")  # [B, n]
    return -nats.double().sum(1)
