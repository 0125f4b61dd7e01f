"""The model as a scikit-learn transformer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ..errors import imported
from ..reading.progress import ProgressBar
from ..text.profiles import checked_texts
from .engine import Precision, as_model
from .features import features_in_parts
from .interface import TextModel
from .kinds import FeatureKind, Pooling, StateName
from .kinds import preset as named_choice


class Parameterized:
    """Parameters are the arguments of `__init__`, which scikit-learn can read and change."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; those that decide results take effect at the next `fit`.

        Raises ValueError for an unknown one.
        """
        names = list(signature(type(self)).parameters)
        for name, value in parameters.items():
            if name not in names:
                raise ValueError(f"invalid parameter {name!r}; valid: {', '.join(names)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loaded_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
            requires_fit=False,
            no_validation=True,
        )


@dataclass(eq=False, repr=False)  # keeps its arguments as they are: scikit-learn asks for it
class SentimentFeaturizer(Parameterized):
    """Turns texts into features, float32 [N, F]: by default the final cell state after each text.

    A scikit-learn transformer, which needs scikit-learn only if scikit-learn calls it. Memory grows
    with the bytes of the texts, not with bytes times units. Pickled, it holds the weights. Raises
    InputError for unusable input.

        SentimentFeaturizer.from_pretrained("default").transform(["so good", "so bad"])

    Parameters
    ----------
    model : str, path or TextModel
        A model directory, a run directory, the name of a shipped model, or a model: an `Engine`, or
        one that the repository's `load_model` loaded for a GPU.
    state : "cell" or "hidden"
        Which half of the state is the feature; the papers take the cell.
    pooling : "last", "mean", "max", "min", or a list of them
        The state after the last token, or over the states after all tokens, including those that
        the text profile adds around the text; several are concatenated. A token is a byte, or a
        subword token if the model has a vocabulary.
    layers : "last", "all", or a list of whole numbers from 0
        Several layers are concatenated: F = layers times units times poolings.
    tanh : bool
        Apply tanh to every state before pooling.
    units : list of whole numbers from 0, or None
        Which units of each layer, in this order; None: all.
    precision : "exact", "fast" or None
        How the products of the shipped models are rounded; docs/speed.md compares the two. None:
        exact, or that of a model that is given.
    threads : int or None
        Texts computed in parallel. It changes the speed, not the features. None: 1, or that of a
        model that is given.
    show_progress : bool
        Show the progress on stderr.
    """

    model: str | Path | TextModel = "default"
    state: StateName = "cell"
    pooling: Pooling | Sequence[Pooling] = "last"
    layers: Literal["last", "all"] | Sequence[int] = "last"
    tanh: bool = False
    units: Sequence[int] | None = None
    precision: Precision | None = None
    threads: int | None = None
    show_progress: bool = False

    @classmethod
    def from_pretrained(
        cls, name_or_dir: str | Path = "default", *, preset: str = "papers", **parameters: Any
    ) -> "SentimentFeaturizer":
        """Load a model and return a featurizer that is ready to transform.

        name_or_dir: a shipped model's name, a model or run directory, or hf://owner/name. preset:
        "papers", the cell state after the last token, or "pooled", which adds its mean, largest and
        smallest value over the text, better for models of 1,024 units. parameters: those of the
        class; they override the preset. Raises InputError for a model that cannot be loaded or an
        unknown preset.
        """
        return cls(name_or_dir, **named_choice(preset, **parameters)).fit()

    def fit(self, texts: object = None, y: object = None) -> "SentimentFeaturizer":
        """Load the model; the texts are not looked at.

        Parameters that `set_params` changed take effect here, and only here, but for
        `show_progress`, which changes no feature.
        """
        kind = FeatureKind(**{item.name: getattr(self, item.name) for item in fields(FeatureKind)})
        loaded = as_model(self.model, self.precision, self.threads)
        kind.size(loaded.architecture)  # refuses layers and units that the model does not have
        self.loaded_, self.kind_ = loaded, kind
        return self

    def fit_transform(self, texts: Iterable[str], y: object = None) -> Any:
        return self.fit(texts, y).transform(texts)

    def transform(self, texts: Iterable[str]) -> Any:
        """Return features, float32 [N, F], rows in the order of the texts; see `set_output`."""
        checked = checked_texts(texts)
        self._ready()
        loaded = self.loaded_
        sequences = [loaded.encode(text) for text in checked]
        features = np.empty((len(sequences), self.kind_.size(loaded.architecture)), np.float32)
        size, first = sum(map(len, sequences)), 0
        with ProgressBar("featurize", size, shown=self.show_progress) as progress:
            of = loaded, sequences, self.kind_
            # The features alone: a reading would be in memory while the next one is made.
            for part in (each[0] for each in features_in_parts(*of, progress.advance)):
                features[first : first + len(part)] = part
                first += len(part)
        if getattr(self, "_sklearn_output_config", {}).get("transform") == "pandas":
            pandas = imported("pandas", "tables of features need")
            index = getattr(texts, "index", None) if hasattr(texts, "iloc") else None
            return pandas.DataFrame(features, index, self.get_feature_names_out())
        return features

    def set_output(self, *, transform: str | None = None) -> "SentimentFeaturizer":
        """Choose what `transform` returns: "default", an array, or "pandas", a DataFrame."""
        if transform not in (None, "default", "pandas"):
            raise ValueError(f"transform is {transform!r}; known: default, pandas")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # scikit-learn's clone keeps it
        return self

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return unit0 ... unit{H-1}; layer0_unit0 for several layers, mean_unit0 for poolings."""
        self._ready()
        return np.array(self.kind_.names(self.loaded_.architecture), dtype=object)

    def _ready(self) -> None:
        if not hasattr(self, "kind_"):
            self.fit()

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=[])  # always float32
        return tags
