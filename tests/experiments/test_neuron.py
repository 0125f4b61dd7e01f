"""The study of a shipped unit: numbers and figures are kept, sentences are not."""

import json

import pytest

from data_utils.synthetic import synthetic_reviews
from experiments.neuron import run as study
from model.text import text_profile
from model.weights import save_model


@pytest.fixture
def texts(tmp_path):
    """Write SST's files of made-up reviews; return all their texts."""
    (tmp_path / "sst").mkdir()
    texts = []
    for name, count in (("train", 60), ("val", 40), ("test", 50)):
        reviews = list(synthetic_reviews(count, seed=count))
        texts += [review.text for review in reviews]
        rows = [f'{review.label},"{review.text}"' for review in reviews]
        (tmp_path / f"sst/{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")
    return texts


def test_numbers_are_kept_and_sentences_are_not(texts, small_model, tmp_path, monkeypatch):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    monkeypatch.setattr(study, "HERE", tmp_path)
    argv = ["run", "--model", str(tmp_path / "model"), "--name", "mine", "--data", str(tmp_path)]
    argv += ["--work", str(tmp_path / "work"), "--draws", "1", "--untrained", "1"]
    monkeypatch.setattr("sys.argv", argv)
    study.main()
    kept = (tmp_path / "results/mine/neuron.json").read_text()
    whole = json.loads((tmp_path / "work/mine/neuron.json").read_text())
    shown = [piece["text"] for piece in whole["extremes"]["texts"]["highest"]]
    assert shown  # there was something to leave out
    assert set(shown) <= set(texts)
    assert not [text for text in texts if json.dumps(text)[1:-1] in kept]
    assert json.loads(kept)["words"] == whole["extremes"]["words"]
    assert {"by_units", "by_labels", "ranking", "without", "baselines"} <= json.loads(kept).keys()
    figures = {path.name for path in (tmp_path / "results/mine").glob("*.png")}
    assert figures == {"histogram.png", "ranking.png", "by_units.png", "by_labels.png"}
