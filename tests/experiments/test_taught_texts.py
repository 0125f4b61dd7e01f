"""What the default model learns from a teacher, and the texts that only validate it."""

import json
import random

import pytest
import torch

from experiments.default_model.sentences.examples import normalized
from experiments.default_model.sentences.rare import cue_of
from experiments.default_model.teach import LENGTHS, sentences_of
from experiments.default_model.texts import other_domains, rated_texts
from experiments.default_model.train import stars_loss, target_of
from experiments.models.overlap import HeldOut
from experiments.models.select_reviews import EXCLUDED

EPS = torch.finfo(torch.float32).eps


def test_the_loss_is_that_of_the_admitted_stars_or_of_the_teachers_probabilities():
    logits = torch.randn(3, 1, 5, generator=torch.Generator().manual_seed(0))
    logs = logits[:, 0].double().log_softmax(-1)
    taught = [0.1, 0.2, 0.3, 0.15, 0.25]
    targets = torch.stack([
        target_of("positive"), target_of("3"), target_of(" ".join(map(str, taught)))
    ])  # fmt: skip
    expected = [-logs[0, 3:].logsumexp(0), -logs[1, 2], -(torch.tensor(taught).double() @ logs[2])]
    torch.testing.assert_close(
        stars_loss(logits, targets).double(), torch.stack(expected).mean(), rtol=64 * EPS, atol=0
    )


def write_reviews(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_taught_sentences_are_short_different_and_not_held_out(tmp_path):
    held_out = "the handle broke on the very first day that we had used it at home"
    reviews = [{"text": f"We bought number {n} in May. It is not what I hoped for, number {n}."}
               for n in range(40)]  # fmt: skip
    reviews += [{"text": held_out}]
    path = write_reviews(tmp_path / "reviews.jsonl", reviews)
    excluded = {normalized("We bought number 3 in May.")}
    drawn = sentences_of(path, 20, HeldOut([held_out]), set(excluded), random.Random(0))
    wordings = [normalized(text) for text in drawn]
    assert len(set(wordings)) == len(drawn) == 20
    assert sum(cue_of(text) == "neither" for text in drawn) == 10
    assert all(LENGTHS[0] <= len(text) <= LENGTHS[1] for text in drawn)
    assert not excluded & set(wordings)
    assert held_out not in drawn


@pytest.mark.parametrize(("source", "count"), [("barred", 500), ("free", 0)])
def test_other_domains_come_from_sources_that_may_not_be_learned_from(
    source, count, tmp_path, monkeypatch
):
    monkeypatch.setitem(EXCLUDED, "barred", "its licence forbids it")
    rows = [
        {"reviewText": f"Review {n}.", "overall": 1 + n % 5, "category": "inn", "source": source}
        for n in range(1500)
    ]
    drawn = other_domains([write_reviews(tmp_path / "other.jsonl", rows)], HeldOut([]))
    assert [(e.label, e.source) for e in drawn] == [("1", "inn")] * (count // 2) + [
        ("5", "inn")
    ] * (count // 2)


def test_rated_texts_of_sources_that_may_not_be_learned_from_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(EXCLUDED, "barred", "its licence forbids it")
    rows = [
        {"reviewText": f"Fine, {n}. " * n, "summary": f"Good {n}", "overall": 5, "source": source}
        for n in (3, 90)
        for source in ("barred", "free")
    ]
    short, titles, longer = rated_texts([write_reviews(tmp_path / "r.jsonl", rows)], HeldOut([]))
    assert list(map(len, (short, titles, longer))) == [1, 1, 1]
    assert not any(rated_texts([write_reviews(tmp_path / "b.jsonl", rows[::2])], HeldOut([])))
