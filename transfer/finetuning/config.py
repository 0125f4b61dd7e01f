"""How a model is fine-tuned."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from mlstm_sentiment.bounds import (
    Bound,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)
from mlstm_sentiment.errors import InputError

if TYPE_CHECKING:
    from .heads import HeadsConfig

# Options of a model that learns together with the heads.
_ENCODER_OPTIONS = ("encoder_factor", "window")


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig:
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
    lm_weight: NonNegativeFloat = 0.0
    """Weight of the language model's loss on the same texts (nats per token); Kant et al. 2018
    took 0.02."""
    hidden_layers: tuple[int, ...] = ()
    """Sizes of hidden layers between the features and the heads."""
    heads_per_class: int = 1
    """Heads for each class, whose probabilities are averaged."""
    dropout: float = 0.1
    """Fraction of the inputs of every layer of the heads that is left out in training."""
    seed: Annotated[int, Bound(min=0, below=2**32)] = 0
    """Seeds the heads, the order of the texts, dropout, and the held-out validation set."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.freeze and self.lm_weight:
            raise InputError("freeze leaves nothing for lm_weight to change")
        unused = [n for n in _ENCODER_OPTIONS if getattr(self, n) != getattr(type(self), n)]
        if self.freeze and unused:
            raise InputError(f"freeze leaves nothing for {unused[0]} to change; leave it out")
        self.heads()

    def heads(self) -> "HeadsConfig":
        """Return the shape of the heads; InputError if it is out of bounds."""
        from .heads import HeadsConfig

        return HeadsConfig(
            hidden_layers=self.hidden_layers,
            heads_per_class=self.heads_per_class,
            dropout=self.dropout,
        )

    @classmethod
    def of(cls, options: Any) -> "FinetuningConfig":
        return cls(**{item.name: getattr(options, item.name) for item in fields(cls)})
