"""The model as a scikit-learn transformer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin

from .errors import InputError
from .features import StateName, features_in_order
from .weights import LoadedModel, load_model


class SentimentFeaturizer(TransformerMixin, BaseEstimator):
    """Texts in, float32 [N, H] out: the final cell state after each text.

    Parameters
    ----------
    model : str or path
        A model directory, a run directory, or the name of a shipped model.
    state : "cell" or "hidden"
        Which half of the state is the feature; the papers take the cell.
    batch_size : int
        Texts read together. It changes the speed, not the features.

    The model is computed in fp32 on the CPU, whatever it was trained in.
    """

    def __init__(
        self, model: str | Path = "default", state: StateName = "cell", batch_size: int = 128
    ):
        self.model = model
        self.state = state
        self.batch_size = batch_size

    @classmethod
    def from_pretrained(cls, name_or_dir: str | Path, **parameters: Any) -> "SentimentFeaturizer":
        """Load a model and return a featurizer that is ready to transform."""
        return cls(name_or_dir, **parameters).fit()

    def fit(self, texts: object = None, labels: object = None) -> "SentimentFeaturizer":
        """Load the model; the texts are not looked at."""
        if self.state not in ("cell", "hidden"):
            raise InputError(f"state is {self.state!r}; known: cell, hidden")
        self.loaded_ = load_model(self.model, compute_dtype=torch.float32)
        return self

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Return features [N, H], rows in the order of the texts."""
        if isinstance(texts, str):
            raise InputError("transform takes a list of texts; got a single string")
        if not hasattr(self, "loaded_"):
            self.fit()
        loaded: LoadedModel = self.loaded_
        sequences = [loaded.profile.tokens(_checked(text)) for text in texts]
        return features_in_order(
            loaded.model, sequences, state=self.state, batch_size=self.batch_size
        )

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return unit0 ... unit{H-1}."""
        size = self.loaded_.model.config.hidden_size
        return np.array([f"unit{index}" for index in range(size)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loaded_")


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"every text must be a string; got {type(text).__name__}")
    return text
