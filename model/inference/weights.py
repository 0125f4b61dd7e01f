"""A model in PyTorch, loaded from its folder; `save_model` writes one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.engine.interface import Reading, TextModel
from mlstm_sentiment.engine.kinds import Pooling
from mlstm_sentiment.engine.request import Clamp, Familiarity, excess_of
from mlstm_sentiment.engine.stored import ModelFolder, open_model
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.text.profiles import TextProfile, checked_texts
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer

from ..kernels.cores import follow_quota
from ..layers.config import ModelConfig
from ..layers.language_model import LanguageModel, Weights, build_model, empty_model
from ..state import DTYPES, State, dtype_name
from .devices import DeviceName, choose_device
from .features import clamped, read
from .tensors import model_digest, save_model

__all__ = ["LoadedModel", "load_model", "model_digest", "save_model", "untrained_like"]


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer, text profile and provenance, as `load_model` returns it.

    It offers what `Engine` does, on any device and for any cell.

    >>> loaded = load_model("default")
    >>> loaded.model.config.cell, loaded.encode("so good").dtype
    ('mlstm', dtype('uint16'))
    """

    model: LanguageModel
    profile: TextProfile
    folder: Path
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Tokenizer = BYTES
    _prepared: dict[Any, Weights] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def architecture(self) -> ModelConfig:
        """The sizes of its layers."""
        return self.model.config

    @property
    def precision(self) -> str:
        """The number format of its products: "fp32", "bf16" or "fp16"."""
        names = {dtype: name for name, dtype in DTYPES.items()}
        return names.get(self.model.dtype, dtype_name(self.model.dtype))

    def digest(self) -> str:
        """Return a digest of architecture and weights, whatever the precision."""
        return model_digest(self.model, torch.float32)

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens [n] of a text, cleaned and framed by the model's profile."""
        return self.tokenizer.encode(self.profile.encode(text))

    @property
    def _weights(self) -> Weights:
        """The weights for products of the model's present dtype, prepared after each change.

        A change through `parameter.data` is not noticed.
        """
        parameters = self.model.parameters()
        of_each = ((p.data_ptr(), None if p.is_inference() else p._version) for p in parameters)
        key = (self.model, self.model.dtype, *of_each)
        if key not in self._prepared:
            self._prepared.clear()
            with torch.inference_mode():
                self._prepared[key] = self.model.prepare_weights()
        return self._prepared[key]

    def read(
        self,
        texts: Sequence[str] | Sequence[np.ndarray],
        pooling: Sequence[Pooling] = ("last", "mean"),
        *,
        familiarity: Familiarity | None = None,
        bits: bool = False,
        **options: Any,
    ) -> Reading:
        """Process N texts, and return what was asked for; see `Engine.read` and `features.read`."""
        sequences = [
            text if isinstance(text, np.ndarray) else self.encode(checked_texts([text])[0])
            for text in texts
        ]
        reading = read(
            self.model,
            sequences,
            pooling,
            bits=bits or familiarity is not None,
            **{"weights": self._weights, **options},
        )
        if familiarity is None:
            return reading
        assert reading.token_bits is not None
        sizes = list(map(self.tokenizer.byte_lengths, sequences))
        unfamiliar = excess_of(reading.token_bits, sizes, familiarity) > 0
        return replace(reading, unfamiliar=unfamiliar)

    @torch.inference_mode()
    def initial_state(self, texts: int = 1, clamp: Clamp | None = None) -> State:
        """Return the state before any text, of so many texts; a clamped unit has its value."""
        if clamp is not None:
            self.model.config.check_clamp(clamp.unit, clamp.layer)
        return clamped(self.model.initial_state(texts), clamp)

    def advance(
        self, state: State, tokens: Sequence[np.ndarray], clamp: Clamp | None = None
    ) -> State:
        """Return the state after more tokens: an array [n] for each of the state's texts."""
        reading = read(
            self.model, tokens, initial=state, final=True, clamp=clamp, weights=self._weights
        )
        after: State = reading.state
        return after

    @torch.inference_mode()
    def next_token(self, state: State) -> np.ndarray:
        """Return the logits of the token after a state of B texts: float32 [B, V]."""
        return self.model.decode(state.h[-1], self._weights).float().cpu().numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_prepared": {}}

    def __repr__(self) -> str:
        config = self.model.config
        device = self.model.embedding.weight.device
        is_shipped = self.folder.parent == SHIPPED_MODELS
        name = self.folder.name if is_shipped else str(self.folder)
        layers = "1 layer" if config.layers == 1 else f"{config.layers} layers"
        return (
            f"LoadedModel({name!r}: {config.cell} of {config.hidden_size:,} units in "
            f"{layers}, text profile {self.profile.name!r}, on {device})"
        )


def load_model(
    name_or_folder: str | Path | ModelFolder,
    *,
    backend: str = "auto",
    compute_dtype: torch.dtype | None = None,
    device: DeviceName = "auto",
) -> LoadedModel:
    """Load a trained model, with its tokenizer and text profile.

    name_or_folder: a shipped model's name, a model directory, a run directory, hf://owner/name, the
    only one that uses the network, or what `open_model` returned. backend: see `ModelConfig`.
    compute_dtype: of the products; None: the parameters' own. device: "cpu", "cuda", "cuda:1",
    "mps", a torch.device, or "auto" or None: a GPU, if any. Raises InputError for files that are
    missing, damaged or of a newer format, and for a device or backend that cannot be used here.
    Shapes are compared with the description before any memory is allocated.

        loaded = load_model("default")
        features = SentimentFeaturizer(loaded).transform(["so good"])
    """
    follow_quota()
    given = name_or_folder
    opened = given if isinstance(given, ModelFolder) else open_model(given)
    chosen = choose_device(device)
    if compute_dtype is not None and not getattr(compute_dtype, "is_floating_point", False):
        raise InputError(f"compute_dtype is {compute_dtype!r}; give one such as torch.bfloat16")
    config = ModelConfig.of(opened.architecture, backend)
    expected = empty_model(config, compute_dtype)
    expected.load_state_dict(stored_tensors(opened, expected.state_dict()), assign=True)
    model = expected.to(chosen).eval()
    model.check_backend()
    return LoadedModel(model, opened.profile, opened.folder, opened.provenance, opened.tokenizer)


def stored_tensors(folder: ModelFolder, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights in a model's folder; InputError unless they are like these."""
    shapes = {name: tuple(tensor.shape) for name, tensor in like.items()}
    stored = folder.weights(shapes)
    return {name: torch.tensor(stored.floats(name)) for name in shapes}


def untrained_like(model: TextModel, seed: int) -> LoadedModel:
    """Return an untrained model of the same architecture, on the same device."""
    untrained = build_model(ModelConfig.of(model.architecture), seed, torch.float32).eval()
    if isinstance(model, LoadedModel):
        untrained.compute_dtype = model.model.compute_dtype
        untrained = untrained.to(model.model.embedding.weight.device)
    return LoadedModel(untrained, model.profile, model.folder, {}, model.tokenizer)
