"""The model as a scikit-learn transformer."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..files.devices import DeviceName
from ..files.weights import LoadedModel, adapted, load_model
from ..layers.config import Precision
from ..reading.progress import ProgressBar
from ..text.profiles import checked_texts
from .features import FeatureKind, Pooling, StateName, features_in_order, prepare_weights
from .features import preset as named_choice


class SentimentFeaturizer(TransformerMixin, BaseEstimator):
    """Turns texts into features, float32 [N, F]: by default the final cell state after each text.

    A scikit-learn transformer. Memory grows with the bytes of the texts, not with bytes times
    units. Pickled, it holds the weights. Raises InputError for unusable input.

        SentimentFeaturizer.from_pretrained("default").transform(["so good", "so bad"])

    Parameters
    ----------
    model : str, path or LoadedModel
        A model directory, a run directory, the name of a shipped model, or a model.
    state : "cell" or "hidden"
        Which half of the state is the feature; the papers take the cell.
    pooling : "last", "mean", "max", "min", or a list of them
        The state after the last token, or over the states after all tokens, including those that
        the text profile adds around the text; several are concatenated. A token is a byte, or a
        subword token if the model has a vocabulary. With any pooling other than "last", cell states
        and those of layers below the last are read one token at a time, which is slower, especially
        for few texts.
    layers : "last", "all", or a list of whole numbers from 0
        Several layers are concatenated: F = layers times units times poolings.
    tanh : bool
        Apply tanh to every state before pooling.
    units : list of whole numbers from 0, or None
        Which units of each layer, in this order; None: all.
    batch_size : int
        Texts read together. It changes the speed, not the features.
    precision : "fp32", "bf16", "fp16", "int8" or None
        Number format of the matrix products, whatever the model was trained in. docs/speed.md says
        which is faster where, and how little the features change. None: fp32, or what a loaded
        model has.
    device : str, torch.device or None
        Where the model runs: "cpu", "cuda", "cuda:1", "mps", or "auto" or None: a GPU, if any, or
        where a loaded model is. A loaded model that is given never changes.
    show_progress : bool
        Show the progress on stderr.
    """

    def __init__(
        self,
        model: str | Path | LoadedModel = "default",
        state: StateName = "cell",
        batch_size: int = 128,
        pooling: Pooling | Sequence[Pooling] = "last",
        layers: Literal["last", "all"] | Sequence[int] = "last",
        tanh: bool = False,
        units: Sequence[int] | None = None,
        precision: Precision | None = None,
        device: DeviceName = "auto",
        show_progress: bool = False,
    ):
        self.model = model
        self.state = state
        self.batch_size = batch_size
        self.pooling = pooling
        self.layers = layers
        self.tanh = tanh
        self.units = units
        self.precision = precision
        self.device = device
        self.show_progress = show_progress

    @classmethod
    def from_pretrained(
        cls, name_or_dir: str | Path = "default", *, preset: str = "papers", **parameters: Any
    ) -> "SentimentFeaturizer":
        """Load a model and return a featurizer that is ready to transform.

        name_or_dir: as for `load_model`. preset: "papers", the cell state after the last token, or
        "pooled", which adds its mean, largest and smallest value over the text, better for models
        of 1,024 units. parameters: those of the class; they override the preset. Raises InputError
        for a model that cannot be loaded or an unknown preset.
        """
        return cls(name_or_dir, **named_choice(preset, **parameters)).fit()

    def fit(self, texts: object = None, y: object = None) -> "SentimentFeaturizer":
        """Load the model; the texts are not looked at.

        Parameters that `set_params` changed take effect here, and only here. `batch_size` and
        `show_progress` change no feature, and take effect immediately.
        """
        kind = FeatureKind(
            state=self.state,
            pooling=self.pooling,
            layers=self.layers,
            tanh=self.tanh,
            units=self.units,
        )
        loaded = self.model
        if not isinstance(loaded, LoadedModel):
            loaded = load_model(loaded, device=self.device)
        loaded = adapted(loaded, self.precision, self.device)
        kind.size(loaded.model.config)  # refuses layers and units that the model does not have
        self._weights = prepare_weights(loaded.model)  # once: a stream comes a few texts at a time
        self.loaded_, self.kind_ = loaded, kind
        return self

    def transform(self, texts: Iterable[str]) -> np.ndarray:
        """Return features [N, F], rows in the order of the texts."""
        checked = checked_texts(texts)
        self._ready()
        loaded: LoadedModel = self.loaded_
        sequences = [loaded.tokens(text) for text in checked]
        size = sum(map(len, sequences))
        with ProgressBar("featurize", size, shown=self.show_progress) as progress:
            return features_in_order(
                loaded.model,
                sequences,
                kind=self.kind_,
                batch_size=self.batch_size,
                weights=self._weights,
                advance=progress.advance,
            )

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return unit0 ... unit{H-1}; layer0_unit0 for several layers, mean_unit0 for poolings."""
        self._ready()
        return np.array(self.kind_.names(self.loaded_.model.config), dtype=object)

    def _ready(self) -> None:
        if not hasattr(self, "kind_"):
            self.fit()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_weights"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "loaded_"):
            self._weights = prepare_weights(self.loaded_.model)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loaded_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.transformer_tags.preserves_dtype = []  # features are float32, whatever comes in
        tags.requires_fit = False
        tags.no_validation = True
        return tags
