"""The study of titles: its corpus, the bits of its parts, and its tables."""

import numpy as np
import pytest
import torch

from data_utils.corpus import open_corpus
from data_utils.preparation.checking import check_corpus
from data_utils.preparation.preparation import Preparation, prepare_corpus
from experiments.epochs.part import write_part
from experiments.titles.measure import bits_by_part
from experiments.titles.report import HEAD, continues, line, weight_of
from experiments.titles.titled import titled
from model.files.weights import load_model, save_model
from model.language_model import ModelConfig, build_model
from model.text.profiles import text_profile
from model.text.split import encode_split

REVIEWS = [
    "good | Fine",
    "no title",
    "a text that is long | Long",
    "bad | Broke",
    "one | two | three",
]


def test_a_corpus_of_short_reviews_with_titles(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(REVIEWS * 20))
    prepare_corpus([tmp_path / "in.txt"], tmp_path / "whole", Preparation(split=(8, 1, 1)))
    corpus = open_corpus(tmp_path / "whole")
    whole = corpus.splits
    chosen = titled(whole["train"], longest=20)
    write_part(tmp_path / "whole", corpus, tmp_path / "part", chosen)
    part = open_corpus(tmp_path / "part").splits
    check_corpus(tmp_path / "part")
    expected = [r for r in texts_of(whole["train"]) if " | " in r and len(r) <= 20]
    assert 0 < len(expected) < whole["train"].reviews
    assert texts_of(part["train"]) == expected
    assert texts_of(part["valid"]) == texts_of(whole["valid"])


def texts_of(split):
    cut = np.split(split.tokens, split.offsets[1:-1])
    return [review.tobytes().decode() for review in cut]


def test_the_bits_of_titles_and_of_text_are_those_of_their_bytes(tmp_path):
    model = build_model(ModelConfig(hidden_size=6), seed=0)
    save_model(tmp_path, model, text_profile("openai"), {})
    split = encode_split(REVIEWS, text_profile("openai"))
    tokens = torch.tensor(split.tokens.astype(int))[None]  # [1, n]
    logits, _ = model(tokens[:, :-1], model.initial_state(1))
    chances = torch.cat([model.decoder.bias[None, None], logits], dim=1).log_softmax(
        -1
    )  # [1, n, V]
    bits = -chances.gather(2, tokens[..., None]).flatten().detach().numpy() / np.log(2)
    text = split.tokens.tobytes()
    is_title = np.zeros(len(text), bool)
    for title in (b"Fine ", b"Long ", b"Broke ", b"three "):
        begin = text.index(b" | " + title) + 3
        is_title[begin : begin + len(title)] = True
    found = bits_by_part(load_model(tmp_path, compute_dtype=torch.float32), split)
    assert found["titles"] == pytest.approx(bits[is_title].mean(), rel=1e-5)
    assert found["text"] == pytest.approx(bits[~is_title].mean(), rel=1e-5)


def test_a_line_is_the_mean_of_seeds_with_what_is_known_of_each():
    def accuracies(value):
        return {n: {"test_accuracy": value} for n in ("all_units", "one_unit", "best_unit")}

    same = [
        {"name": f"a_seed_{n}", "sst": {"last": accuracies(0.5 + n / 4), "mean": accuracies(0.75)}}
        for n in (0, 1)
    ]
    known = {
        f"a_seed_{n}": {
            "titles": 2.0 + n,
            "text": 1.5,
            "sst_by_titles": {"at_median": {"test_accuracy": 0.625}},
        }
        for n in (0, 1)
    }
    cells = list(line("a", same, known))
    assert len(cells) == len(HEAD)
    assert cells[:3] == [
        "`a`",
        "2.500 (2.000 to 3.000; 2 seeds)",
        "1.500 (1.500 to 1.500; 2 seeds)",
    ]
    assert cells[3] == cells[4] == cells[5] == "62.5 (50.0 to 75.0; 2 seeds)"
    assert cells[6].startswith("75.0")
    assert cells[7].startswith("62.5")


def test_runs_are_told_apart_by_their_keys():
    begun, new = {"keys": {"train.start_from": "a", "data.title_weight": 4.0}}, {"keys": {}}
    assert [continues(run) for run in (begun, new)] == [True, False]
    assert [weight_of(run) for run in (begun, new)] == [4.0, 1.0]
