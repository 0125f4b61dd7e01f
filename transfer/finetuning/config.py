"""How a model is fine-tuned."""

from dataclasses import dataclass, fields
from typing import Annotated, Any

from mlstm_sentiment.bounds import (
    Bound,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)
from mlstm_sentiment.errors import InputError, checked_whole

from ..task import Seed

# Options of a model that learns together with the heads.
_ENCODER_OPTIONS = ("encoder_factor", "window")

_MOST_UNITS = 1 << 20
_MOST_LAYERS = _MOST_HEADS = 1 << 10


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    """The shape of the layers between a text's features and its classes."""

    hidden_layers: tuple[Annotated[int, Bound(min=1, max=_MOST_UNITS)], ...] = ()
    """Sizes of hidden layers between the features and the heads; none: the heads are linear."""
    heads_per_class: Annotated[int, Bound(min=1, max=_MOST_HEADS)] = 1
    """Heads for each class, whose probabilities are averaged."""
    dropout: Fraction = 0.1
    """Fraction of each linear layer's inputs to drop in training; each head has its own mask."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")
        checked_whole("the number of hidden layers", len(self.hidden_layers), 0, _MOST_LAYERS)


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig(HeadsConfig):
    """Heads, rates and losses."""

    epochs: PositiveInt = 5
    """Passes over the training set; the best one by the validation set is kept."""
    batch_size: PositiveInt = 32
    """Texts per step."""
    head_lr: PositiveFloat = 1e-3
    """Peak learning rate of AdamW for the heads; after the warm-up it falls linearly to zero."""
    encoder_factor: PositiveFloat = 0.1
    """The model's rate as a multiple of the heads'."""
    freeze: bool = False
    """Train only the heads, on features that are computed once; the model stays as it is."""
    warmup: Fraction = 0.1
    """Fraction of the steps over which the rates rise from zero."""
    weight_decay: NonNegativeFloat = 0.0
    """Of AdamW."""
    clip_norm: PositiveFloat = 1.0
    """Largest norm of the gradient."""
    window: PositiveInt = 512
    """Gradients flow through this many tokens at the end of a text; all of the text is read."""
    seed: Seed = 0
    """Seeds the heads, the order of the texts, dropout, and the held-out validation set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unused = [n for n in _ENCODER_OPTIONS if getattr(self, n) != getattr(type(self), n)]
        if self.freeze and unused:
            option = unused[0].replace("_", "-")
            raise InputError(f"--freeze leaves nothing for --{option} to change; leave it out")

    @classmethod
    def of(cls, options: Any) -> "FinetuningConfig":
        return cls(**{item.name: getattr(options, item.name) for item in fields(cls)})
