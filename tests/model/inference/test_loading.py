"""Which implementation computes a model."""

import pytest
import torch

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference import loading
from model.inference.loading import load_text_model
from model.inference.weights import LoadedModel, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model


@pytest.fixture(scope="module", params=["mlstm", "lstm"])
def folder(request, tmp_path_factory):
    config = ModelConfig(cell=request.param, hidden_size=8, embedding_size=4, weight_norm=False)
    folder = tmp_path_factory.mktemp(request.param)
    save_model(folder, build_model(config, seed=1), text_profile("openai"), {})
    return folder


@pytest.mark.parametrize("precision", ["exact", "fast", "fp32", "bf16"])
@pytest.mark.parametrize(("device", "fast"), [("cpu", True), ("cpu:0", False)])
def test_the_engine_computes_what_it_can(folder, device, precision, fast, monkeypatch, caplog):
    """fast: whether the device multiplies bf16 fast."""
    monkeypatch.setattr(
        loading, "multiplies_fast", lambda dtype, device: fast or dtype == torch.float32
    )
    is_mlstm = "mlstm" in folder.name
    if precision == "fast" and not is_mlstm:
        with pytest.raises(InputError, match="precision fast is not for this model"):
            load_text_model(folder, device=device, precision=precision)
        return
    loaded = load_text_model(folder, device=device, precision=precision)
    is_for_engine = is_mlstm and precision in ("exact", "fast")
    assert isinstance(loaded, Engine if is_for_engine else LoadedModel)
    assert ("fp32 is faster" in caplog.text) is (precision == "bf16" and not fast)
    if not is_for_engine:
        with pytest.raises(InputError, match=r"threads 2: .* PyTorch does not compute"):
            load_text_model(folder, device=device, precision=precision, threads=2)
    assert loaded.precision == ("fp32" if precision == "exact" and not is_mlstm else precision)


def test_an_unknown_precision_is_refused(folder):
    with pytest.raises(InputError, match="precision"):
        load_text_model(folder, device="cpu", precision="double")
