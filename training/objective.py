"""The training loss: what each next token costs a language model."""

from torch import Tensor, nn

from model.layers.language_model import LanguageModel
from model.layers.layer import PerGateParameters
from model.state import State


class Objective(nn.Module):
    """A language model and its loss."""

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Tensor,
        targets: Tensor,
        state: State,
        dropout_factors: Tensor | None = None,
        leaves: PerGateParameters | None = None,
        gradient_scale: float | Tensor = 1.0,
    ) -> tuple[Tensor, State]:
        """Return the nats of targets given tokens, summed over all, and the state after.

        tokens: integers below V, [B, T]. targets: as tokens, or IGNORED. state: of the model.
        dropout_factors: [B, H], 0 or 1 / (1 - dropout); they multiply the decoder's input, the same
        for the whole window.
        leaves: tensors that receive the gradients, if not the parameters.
        gradient_scale: multiplies the gradients, not the nats, e.g. 1 / number of targets.
        """
        from model.layers.cross_entropy import linear_cross_entropy  # the layers have its kernels

        weights = self.model.prepare_weights(leaves)
        h, state = self.model.hidden(tokens, state, weights)  # [T, B, H]
        if dropout_factors is not None:
            h = h * dropout_factors
        nats = linear_cross_entropy(
            h.flatten(0, 1),
            weights.w_out,
            weights.b_out,
            targets.t().flatten(),
            gradient_scale=gradient_scale,
        )
        return nats, state
