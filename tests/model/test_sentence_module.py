"""A pushed model in the sentence-transformers library, where that is installed."""

from importlib import import_module

import numpy as np
import pytest

import hubconf
from model import SentimentFeaturizer, save_model
from model.classifiers.push import write_repository
from model.text.profiles import text_profile

TEXTS = [f"It broke after {number} days. " * (number % 5 + 1) for number in range(18)] + [
    "",
    "é 😀",
]


@pytest.fixture
def folder(small_model, tmp_path):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    write_repository(tmp_path / "model", tmp_path / "repository", "me/tiny")
    return tmp_path / "repository"


def test_it_returns_the_rows_of_the_featurizer(folder):
    """Its own methods, called as the library calls them."""
    package = hubconf._package().__name__  # as if installed
    found = import_module(f"{package}.sentence_module").FinalState
    module = found.load(str(folder), subfolder="")
    rows = module(module.preprocess(TEXTS))["sentence_embedding"].numpy()
    np.testing.assert_array_equal(rows, SentimentFeaturizer(folder).transform(TEXTS))
    prompted = module(module.preprocess(TEXTS, prompt="so "))["sentence_embedding"].numpy()
    expected = SentimentFeaturizer(folder).transform([f"so {text}" for text in TEXTS])
    np.testing.assert_array_equal(prompted, expected)


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_the_library_reads_the_folder_and_writes_it(folder, tmp_path, monkeypatch):
    library = pytest.importorskip(
        "sentence_transformers", reason="needs sentence-transformers, which nothing else needs"
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hubconf._package()  # as if installed
    expected = SentimentFeaturizer(folder).transform(TEXTS)
    model = library.SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    assert model.get_sentence_embedding_dimension() == expected.shape[1]
    np.testing.assert_array_equal(model.encode(TEXTS), expected)
    model.save_pretrained(str(tmp_path / "saved"))
    again = library.SentenceTransformer(
        str(tmp_path / "saved"), trust_remote_code=True, device="cpu"
    )
    np.testing.assert_array_equal(again.encode(TEXTS), expected)
