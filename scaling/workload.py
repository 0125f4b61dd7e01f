"""What a model costs: its parameters, and the operations of a token."""

from dataclasses import dataclass

from model.errors import InputError
from model.layers.config import ModelConfig

FORWARD_AND_BACKWARD = 6  # operations of a weight for every token: 2 forward, 4 backward


@dataclass(frozen=True)
class Workload:
    """The sizes of a model that decide its time."""

    parameters: int
    product_weights: int  # of the matrices that every token is multiplied by
    recurrent_weights: int  # of those that a pass reads again for every token of a lane

    @classmethod
    def of(cls, config: ModelConfig) -> "Workload":
        """Count a model of mLSTM layers; InputError for another cell."""
        if config.cell != "mlstm":
            raise InputError(f"model.cell is {config.cell}; the performance model knows only mlstm")
        H, E, V, L = (
            config.hidden_size,
            config.embedding_size,
            config.resolved_vocabulary_size,
            config.layers,
        )
        products = 5 * H * (E + H) + (L - 1) * 5 * H * 2 * H + H * V
        gains = 10 * H if config.weight_norm else 0  # one for each row of w_mx, w_x, w_mh, w_h
        return cls(V * E + products + L * (4 * H + gains) + V, products, L * 5 * H * H)

    @property
    def operations_per_token(self) -> int:
        """Operations of a training step for each token.

        As the published code computes: every token's input is projected. Ours looks tokens up in
        a table, which saves 1.5 % at 4,096 units.
        """
        return FORWARD_AND_BACKWARD * self.product_weights

    def computing_seconds(self, tokens: float, operations_per_second: float) -> float:
        """Return the seconds of forward and backward over so many tokens at a sustained rate."""
        return tokens * self.operations_per_token / operations_per_second
