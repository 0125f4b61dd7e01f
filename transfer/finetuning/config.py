"""How a model is fine-tuned."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from model.bounds import (
    Bound,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_bounds,
)
from model.errors import InputError

if TYPE_CHECKING:
    from model.classifiers.heads import HeadsConfig

# Options of a model that learns together with the heads.
ENCODER_OPTIONS = ("encoder_factor", "layer_factor", "window")


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig:
    """Heads, rates, losses, and the choices made on the validation set."""

    epochs: PositiveInt = 5
    """Passes over the training set; the best one by the validation set is kept."""
    batch_size: PositiveInt = 32
    """Texts per step."""
    head_lr: PositiveFloat = 1e-3
    """Peak learning rate of AdamW for the heads; after the warm-up it falls linearly to zero."""
    encoder_factor: PositiveFloat = 0.1
    """The last layer's rate as a multiple of the heads'."""
    layer_factor: PositiveFloat = 1.0
    """The rate of each layer below, and of the embedding, as a multiple of the one above; ULMFiT
    took 1/2.6."""
    freeze: bool = False
    """Train only the heads, on features that are computed once; the model stays as it is."""
    unfreeze_epochs: NonNegativeInt = 0
    """Epochs until one more layer, from the top down, begins to learn; 0: all learn at once."""
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
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare classes count as much as common ones."""
    threshold_metric: Literal["f1", "mcc", "jaccard", "accuracy"] | None = None
    """Metric on the validation set that a class's threshold maximises. Default: f1 if a text may
    have several labels, accuracy for two classes. With more than two exclusive classes there is no
    threshold: the likeliest class wins."""
    metric: Literal["accuracy", "f1_macro", "f1_micro", "jaccard_macro", "mcc"] | None = None
    """Metric on the validation set that chooses the best epoch. Default: f1_macro if a text may
    have several labels, else accuracy."""
    patience: NonNegativeInt = 0
    """Stop after this many epochs without a better one; 0: never stop early."""
    seed: Annotated[int, Bound(min=0, below=2**32)] = 0
    """Seeds the heads, the order of the texts, dropout, and the held-out validation set."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.freeze and (self.lm_weight or self.unfreeze_epochs):
            raise InputError("freeze leaves nothing for lm_weight or unfreeze_epochs to change")
        self.heads()

    def check_new(self, *, has_thresholds: bool) -> None:
        """Refuse settings without effect; a fine-tuning may have begun with them before.

        has_thresholds: whether the task has classes that a threshold chooses.
        """
        unused = [n for n in ENCODER_OPTIONS if getattr(self, n) != getattr(type(self), n)]
        if self.freeze and unused:
            raise InputError(f"freeze leaves nothing for {unused[0]} to change; leave it out")
        if self.threshold_metric and not has_thresholds:
            raise InputError(
                "threshold_metric: of several exclusive classes the likeliest one wins, there is "
                "no threshold; leave it out"
            )

    def heads(self) -> "HeadsConfig":
        """Return the shape of the heads; InputError if it is out of bounds."""
        from model.classifiers.heads import HeadsConfig

        return HeadsConfig(
            hidden_layers=self.hidden_layers,
            heads_per_class=self.heads_per_class,
            dropout=self.dropout,
        )

    @classmethod
    def of(cls, options: Any) -> "FinetuningConfig":
        """Return this part of a command's options."""
        return cls(**{item.name: getattr(options, item.name) for item in fields(cls)})
