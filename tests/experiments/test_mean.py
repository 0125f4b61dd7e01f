"""The mean of several networks of one training."""

import torch

from mlstm_sentiment.text.profiles import text_profile
from model.inference.tensors import save_model
from model.inference.weights import load_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.support.runs import done, run


def test_weights_are_averaged(tmp_path):
    models = [build_model(ModelConfig(hidden_size=8), seed=seed) for seed in range(2)]
    for number, model in enumerate(models):
        provenance = {"characters": 10 * number, "best_valid_bits_per_character": 1.5}
        save_model(tmp_path / str(number), model, text_profile("openai"), provenance)
    folders = [tmp_path / "0", tmp_path / "1"]
    done(run("-m", "experiments.models.mean", *folders, "--output", tmp_path / "mean"))
    mean = load_model(tmp_path / "mean")
    for name, tensor in mean.model.state_dict().items():
        expected = (models[0].state_dict()[name] + models[1].state_dict()[name]) / 2
        # below 1: the mean is rounded to fp32 once, the expected value twice
        torch.testing.assert_close(tensor, expected, rtol=0, atol=4 * 2**-24)
    assert mean.provenance["characters"] == 10
    assert "best_valid_bits_per_character" not in mean.provenance  # it is of one of them
    assert [each["characters"] for each in mean.provenance["mean_of"]] == [0, 10]
