"""Which implementation computes a model, and how often its folder is read."""

import sys

import pytest

from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import CONFIG_FILE
from mlstm_sentiment.text.profiles import text_profile
from model.inference.loading import load_text_model
from model.inference.weights import LoadedModel, load_model, save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model

_opened: list[str] | None = None  # names of files, while a test counts them


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_count)


@pytest.fixture(scope="module", params=["mlstm", "lstm"])
def folder(request, tmp_path_factory):
    config = ModelConfig(cell=request.param, hidden_size=8, embedding_size=4, weight_norm=False)
    folder = tmp_path_factory.mktemp(request.param)
    save_model(folder, build_model(config, seed=1), text_profile("openai"), {})
    return folder


def opened_by(load) -> tuple[object, int]:
    """Return what a function loads, and how often it opens a model's description."""
    global _opened
    _opened = []
    try:
        return load(), sum(name.endswith(CONFIG_FILE) for name in _opened)
    finally:
        _opened = None


@pytest.mark.parametrize("precision", ["exact", "fast", "fp32", "bf16"])
@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_the_engine_computes_what_it_can_and_a_folder_is_read_once(folder, device, precision):
    is_mlstm = "mlstm" in folder.name
    if precision == "fast" and not is_mlstm:
        with pytest.raises(InputError, match="precision fast is not for this model"):
            load_text_model(folder, device=device, precision=precision)
        return
    loaded, times = opened_by(lambda: load_text_model(folder, device=device, precision=precision))
    is_for_engine = is_mlstm and precision in ("exact", "fast")
    assert isinstance(loaded, Engine if is_for_engine else LoadedModel)
    assert loaded.precision == ("fp32" if precision == "exact" and not is_mlstm else precision)
    assert times == 1


@pytest.mark.parametrize("load", [Engine.load, load_model])
def test_a_description_is_opened_once(load):
    assert opened_by(lambda: load("amazon_1024"))[1] == 1


def test_an_unknown_precision_is_refused(folder):
    with pytest.raises(InputError, match="precision"):
        load_text_model(folder, device="cpu", precision="double")
