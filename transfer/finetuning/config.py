"""How a model is fine-tuned."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from model.errors import InputError, check_finite

if TYPE_CHECKING:
    from model.classifiers.heads import HeadsConfig


@dataclass(frozen=True, kw_only=True)
class FinetuningConfig:
    """Heads, rates, losses, and what is chosen on the validation set."""

    epochs: int = 5
    """Passes over the training set; the best one by the validation set is kept."""
    batch_size: int = 32
    """Texts per step."""
    head_lr: float = 1e-3
    """Peak learning rate of the heads, of AdamW; it then falls linearly to zero."""
    encoder_factor: float = 0.1
    """The last layer's rate as a multiple of the heads'."""
    layer_factor: float = 1.0
    """The rate of each layer below, and of the embedding, as a multiple of the one above; ULMFiT
    took 1/2.6."""
    freeze: bool = False
    """The model stays as it is: only heads learn, on features computed once."""
    unfreeze_epochs: int = 0
    """Epochs after which one more layer from the top begins to learn; 0: all learn at once."""
    warmup: float = 0.1
    """Share of the steps over which the rates rise from zero."""
    weight_decay: float = 0.0
    """Of AdamW."""
    clip_norm: float = 1.0
    """Largest norm of the gradient."""
    window: int = 512
    """Symbols at a text's end through which gradients flow. Texts are read whole."""
    lm_weight: float = 0.0
    """Weight of the language model's loss on the same texts (nats per symbol); Kant et al. 2018
    took 0.02."""
    hidden_layers: tuple[int, ...] = ()
    """Sizes of hidden layers between the features and the heads."""
    heads_per_class: int = 1
    """Heads for each class, whose probabilities are averaged."""
    dropout: float = 0.1
    """Share of the inputs of every layer of the heads that is left out in training."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rare classes count as much as common ones."""
    threshold_metric: Literal["f1", "mcc", "jaccard", "accuracy"] | None = None
    """What a class's threshold maximises on the validation set; absent, f1 where a text may have
    several labels, accuracy for two classes. Of more classes that exclude each other the likeliest
    is taken."""
    metric: Literal["accuracy", "f1_macro", "f1_micro", "jaccard_macro", "mcc"] | None = None
    """What the best epoch is best in, on the validation set; absent, f1_macro where a text may have
    several labels, else accuracy."""
    patience: int = 0
    """Epochs without a better one after which it ends; 0: never early."""
    seed: int = 0
    """Seeds the heads, the order of the texts, dropout, and the held-out validation set."""

    def __post_init__(self) -> None:
        check_finite(self)
        for name in ("epochs", "batch_size", "window"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; at least 1")
        for name in ("head_lr", "encoder_factor", "layer_factor", "clip_norm"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be above zero")
        for name in ("weight_decay", "lm_weight", "patience", "unfreeze_epochs"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup is {self.warmup}; it is a share, 0 <= warmup < 1")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed is {self.seed}; it must be between 0 and 2^32")
        if self.freeze and (self.lm_weight or self.unfreeze_epochs):
            raise InputError("freeze leaves nothing for lm_weight or unfreeze_epochs to change")
        self.heads()

    def heads(self) -> "HeadsConfig":
        """Return the shape of the heads; InputError where there are none such."""
        from model.classifiers.heads import HeadsConfig

        return HeadsConfig(
            hidden_layers=self.hidden_layers,
            heads_per_class=self.heads_per_class,
            dropout=self.dropout,
        )

    @classmethod
    def of(cls, options: Any) -> "FinetuningConfig":
        """Return the part of a command's options that this is."""
        return cls(**{item.name: getattr(options, item.name) for item in fields(cls)})
