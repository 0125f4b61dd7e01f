"""Weights averaged over the steps, beside those that learn."""

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from model.language_model import LanguageModel


def average_of(model: LanguageModel, decay: float) -> AveragedModel | None:
    """Return what keeps a moving average of the weights, from the first step on."""
    if not decay:
        return None
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
