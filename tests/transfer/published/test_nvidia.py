"""NVIDIA's .pt files: every way they were saved gives the states of the same mathematics."""

import argparse
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import load_model, save_model
from tests.transfer.published.layouts import draw, nvidia_language_model
from tests.transfer.published.states import TEXT, assert_same, read
from transfer.published.imports import _order_by_bits, import_nvidia


@pytest.fixture(scope="module")
def language():
    return draw()


@pytest.fixture
def save(tmp_path):
    def write(content, **options):
        torch.save(content, tmp_path / "model.pt", **options)
        return tmp_path / "model.pt"

    return write


@pytest.mark.parametrize("tokens", [256, 257])
@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize("order", ["ifou", "ifuo"])
@pytest.mark.parametrize(("E", "H", "layers"), [(6, 10, 1), (8, 8, 1), (5, 3, 2)])
def test_states_are_those_of_the_file(save, tokens, weight_norm, order, E, H, layers):
    language = draw(E, H, layers)
    content = nvidia_language_model(language, order, tokens, weight_norm)
    imported = import_nvidia(save(content), order)
    assert_same(imported.model, language)
    assert imported.model.config.weight_norm is weight_norm
    assert imported.provenance["gate_order"] == order
    assert imported.provenance["symbols"] == tokens


@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_half_precision_and_the_older_container(save, language, weight_norm, zipped):
    content = nvidia_language_model(language, weight_norm=weight_norm, dtype=torch.float16)
    path = save(content, _use_new_zipfile_serialization=zipped)
    model = import_nvidia(path, "ifuo").model
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}
    assert_same(model, language, tolerance=0.05)
    if not weight_norm:
        theirs = content["encoder"]["rnn"]["rnns.0.w_hh"]
        assert torch.equal(model.state_dict()["layers.0.w_h"], theirs.float())


def test_the_code_of_2019_is_known_and_the_oldest_container_refused(save, language, tmp_path):
    content = nvidia_language_model(language, "ifuo", 257)
    content["decoder"]["bias"][0] = -torch.inf
    imported = import_nvidia(save(content))
    assert_same(imported.model, language)
    assert any("pad" in remark for remark in imported.remarks)
    with tarfile.open(tmp_path / "old.pt", "w") as archive:
        for part in ("storages", "tensors", "pickle"):
            archive.addfile(tarfile.TarInfo(part))
    with pytest.raises(InputError, match=r"older than PyTorch 0\.1\.10.*with a newer PyTorch"):
        import_nvidia(tmp_path / "old.pt", "ifuo")


@pytest.mark.parametrize("order", ["ifou", "ifuo"])
@pytest.mark.parametrize("weight_norm", [True, False])
def test_auto_finds_the_order_that_reads_english(save, learnt, order, weight_norm):
    content = nvidia_language_model(learnt, order, weight_norm=weight_norm)
    imported = import_nvidia(save(content))
    assert imported.provenance["gate_order"] == order
    assert imported.warnings == ()
    assert any("plausible" in remark for remark in imported.remarks)
    assert_same(imported.model, learnt, tolerance=1e-3)


def test_auto_refuses_where_it_cannot_decide(save, language):
    with pytest.raises(InputError, match=r"cannot determine the gate order.*--gate-order"):
        import_nvidia(save(nvidia_language_model(language)))
    with pytest.raises(InputError, match=r"1\.50 as ifou, 1\.70 as ifuo.*--gate-order"):
        _order_by_bits(Path("weights.pt"), {"ifou": 1.5, "ifuo": 1.7})
    with pytest.raises(InputError, match=r"without a decoder.*--gate-order"):
        import_nvidia(save(classifier_2018(nvidia_language_model(language))))


def classifier_2018(content):
    head = {"weight": torch.randn(1, 10), "bias": torch.zeros(1)}
    return {"encoder": content["encoder"], "classifier": head}


def classifier_2019(content):
    inner = {"encoder": content["encoder"]}
    return {"lm_encoder": inner, "classifier": {"neurons": None, "thresholds": torch.ones(1)}}


def fine_tuned(content):
    arguments = argparse.Namespace(lr=0.1, data=["a.csv"], load=None)
    return {"sd": classifier_2019(content), "args": arguments}


@pytest.mark.parametrize("wrap", [classifier_2018, classifier_2019, fine_tuned])
@pytest.mark.parametrize("tokens", [256, 257])
def test_the_model_inside_a_classifier(save, language, wrap, tokens):
    imported = import_nvidia(save(wrap(nvidia_language_model(language, "ifuo", tokens))), "ifuo")
    cell, logits = read(imported.model)
    np.testing.assert_allclose(cell, language.read(TEXT)[1][-1], atol=2e-5)
    assert not logits.any()  # no decoder: said by zeros, and by a warning
    assert "no decoder" in imported.warnings[0]
    if wrap is classifier_2019:  # one that has a decoder keeps it
        content = nvidia_language_model(language, "ifuo", tokens)
        wrapped = wrap(content)
        wrapped["lm_encoder"]["decoder"] = content["decoder"]
        assert_same(import_nvidia(save(wrapped), "ifuo").model, language)
    assert any("classifier is not imported" in remark for remark in imported.remarks)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("tokens", [256, 257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("filling", [0, 10_000])
def test_an_embedding_that_is_the_decoder_too(save, tmp_path, zipped, tokens, dtype, filling):
    """`--tied` trains one matrix for both; torch.save writes it once."""
    language = draw(E=8, H=8)
    language.w = language.embedding.T
    content = nvidia_language_model(language, "ifuo", tokens, dtype=dtype)
    content["decoder"]["weight"] = content["encoder"]["encoder"]["weight"]
    if filling:  # a file so large that it could hold both
        content = {"lm_encoder": content, "classifier": {"weight": torch.ones(filling)}}
    path = save(content, _use_new_zipfile_serialization=zipped)
    imported = import_nvidia(path, "ifuo")
    save_model(tmp_path / "model", imported.model, text_profile("nvidia"), imported.provenance)
    loaded = load_model(tmp_path / "model").model
    assert_same(loaded, language, tolerance=2e-5 if dtype == torch.float32 else 0.05)
    weights = loaded.state_dict()
    assert torch.equal(weights["decoder.weight"], weights["embedding.weight"])


@pytest.mark.parametrize("zipped", [True, False])
def test_other_tensors_that_share_memory(save, tmp_path, zipped):
    """A file that has room for them comes apart; one that has not is refused.

    So is one with strides of 0: it could ask for any number of large ones.
    """
    content = nvidia_language_model(draw(E=40, H=40), "ifuo", weight_norm=False)
    rnn = content["encoder"]["rnn"]
    rnn["rnns.0.w_hh"] = rnn["rnns.0.w_ih"]
    rnn["rnns.0.w_mhh"] = rnn["rnns.0.w_mih"]
    options = {"_use_new_zipfile_serialization": zipped}
    with pytest.raises(InputError, match="its tensors claim"):
        import_nvidia(save(content, **options), "ifuo")
    roomy = save(content | {"classifier": torch.ones(10_000)}, **options)
    imported = import_nvidia(roomy, "ifuo")
    save_model(tmp_path / "model", imported.model, text_profile("nvidia"), imported.provenance)
    weights = load_model(tmp_path / "model").model.state_dict()
    assert torch.equal(weights["layers.0.w_h"], weights["layers.0.w_x"])


SECTIONS = {
    "encoder": lambda content: content["encoder"]["encoder"],
    "rnn": lambda content: content["encoder"]["rnn"],
    "decoder": lambda content: content["decoder"],
}
NAMES = [("encoder", "weight"), ("decoder", "weight"), ("decoder", "bias")] + [
    ("rnn", f"rnns.0.{name}")
    for name in ("w_ih_g", "w_ih_v", "w_hh_g", "w_hh_v", "w_mih_g", "w_mih_v", "w_mhh_g",
                 "w_mhh_v", "b_ih", "b_hh")
]  # fmt: skip


@pytest.mark.parametrize(("section", "name"), NAMES)
@pytest.mark.parametrize("change", ["missing", "shorter", "of integers", "no tensor"])
def test_wrong_tensors_are_refused(save, language, section, name, change):
    content = nvidia_language_model(language)
    tensors = SECTIONS[section](content)
    tensor = tensors.pop(name)
    changed = {"shorter": tensor[:-1], "of integers": tensor.long(), "no tensor": [1.0]}
    tensors |= {name: changed[change]} if change in changed else {}
    with pytest.raises(InputError, match=r"encoder|decoder|rnns|tokens"):
        import_nvidia(save(content), "ifuo")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "found nothing"),
        ([1, 2], "found a list"),
        ({"iter": 3, "optimizer": {}}, "found 'iter', 'optimizer'"),
        ({"encoder": {"encoder": {}, "rnn": {}}}, "is it an mLSTM"),
        ({"encoder": {"encoder": {}, "rnn": 3}}, "found a int"),
    ],
)
def test_other_files_are_refused(save, content, message):
    with pytest.raises(InputError, match=message):
        import_nvidia(save(content), "ifuo")


def test_other_architectures_are_refused(save, language):
    content = nvidia_language_model(language)
    lstm = {k: v for k, v in content["encoder"]["rnn"].items() if "w_m" not in k}
    lm = {"encoder": content["encoder"] | {"rnn": lstm}, "decoder": content["decoder"]}
    with pytest.raises(InputError, match="w_mih_g is absent"):
        import_nvidia(save(lm), "ifuo")
    content["encoder"]["rnn"]["rnns.0.w_ho"] = torch.zeros(3, 3)
    with pytest.raises(InputError, match=r"w_ho is \[3, 3\], but"):
        import_nvidia(save(content), "ifuo")
    content["encoder"]["encoder"]["weight"] = torch.zeros(32001, 6)
    with pytest.raises(InputError, match="32001 tokens"):
        import_nvidia(save(content), "ifuo")
    content = nvidia_language_model(language)
    content["encoder"]["rnn"]["rnns.0.b_ih"][3] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        import_nvidia(save(content), "ifuo")


@pytest.mark.parametrize("zipped", [True, False])
def test_files_cut_short_are_refused(save, language, zipped):
    path = save(nvidia_language_model(language), _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    for length in (0, 1, 60, len(whole) // 3, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="cut short"):
            import_nvidia(path, "ifuo")


class Call:
    """What a pickle may ask for: to call any function with any argument."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(Call(os.mkdir, "ran"), id="code"),
        # Memory without content, of functions that torch's own reader allows.
        pytest.param(Call(bytearray, 1 << 50), id="bytes"),
        pytest.param(Call(torch.FloatTensor, 1 << 50), id="a tensor"),
    ],
)
def test_what_no_model_needs_is_refused_and_not_run(
    save, language, tmp_path, monkeypatch, zipped, payload
):
    monkeypatch.chdir(tmp_path)
    content = nvidia_language_model(language) | {"payload": payload}
    path = save(content, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match="code in it, which was not run; get it again") as caught:
        import_nvidia(path, "ifuo")
    assert not (tmp_path / "ran").exists()
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_strides_of_zero_claim_no_memory(save, language, zipped):
    """A file of 2.6 kB could ask for 57 GB."""
    content = nvidia_language_model(language)
    content["encoder"]["encoder"]["weight"] = torch.zeros(1).expand(256, 1 << 26)
    path = save(content, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"its tensors claim 68,719,\d+,\d+ bytes where the file"):
        import_nvidia(path, "ifuo")
