"""A model directory with a classifier inside, which several files of tests ask."""

from pathlib import Path

import numpy as np
import pytest

from mlstm_sentiment import SentimentFeaturizer
from mlstm_sentiment.head.head import Head
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, model_digest, save_model
from model.layers.language_model import LanguageModel
from tests.support.heads import regression

TEXTS = ["good", "", "An awful thing. " * 30, "ça marche — très bien", "bad\nnews"]


def fitted(folder: Path, classes: tuple[str, ...] = ("bad", "good")) -> Head:
    """Return a classifier of a model, whose log-odds are both signs on TEXTS."""
    rows = () if len(classes) == 2 else (len(classes),)
    weights = np.random.default_rng(0).normal(size=(*rows, 12)).astype(np.float32)
    features = SentimentFeaturizer.from_pretrained(folder).transform(TEXTS)
    centre = -np.quantile(features @ weights.T, 0.4, axis=0)  # between two texts
    return regression(weights, centre, classes, 4, 1, model_digest(load_model(folder).model))


@pytest.fixture
def folder(small_model: LanguageModel, tmp_path: Path) -> Path:
    """A model directory with that classifier inside."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    save_head(tmp_path / "model" / "classifier", fitted(tmp_path / "model"))
    return tmp_path / "model"
