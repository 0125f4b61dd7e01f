"""The sentences that the default model is trained on and compared on."""

import copy
import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from experiments.default_model.fit_ngrams import accuracies, fitted, hashed, rarity_of, rounded
from experiments.default_model.heads import of_each_star, part, without_part
from experiments.default_model.methods import Answers
from experiments.default_model.nearness import nearest
from experiments.default_model.remarks import (
    Band,
    describe_remarks,
    fit_band,
    own_remarks,
    read_remarks,
    three_classes,
)
from experiments.default_model.second_pass import AverageOptions, TextOptions, average, write_texts
from experiments.default_model.sentences.everyday import (
    APART,
    TEST,
    VALIDATION,
    everyday_sentences,
    everyday_wordings,
)
from experiments.default_model.sentences.examples import (
    Example,
    normalized,
    read_examples,
    write_examples,
)
from experiments.default_model.sentences.grammar import Sentence, draw, drawn_freely
from experiments.default_model.ship import doubt, familiar, main, slopes, with_neutral
from experiments.default_model.study import TestSet as SetOfTexts
from experiments.default_model.study import (
    answers_of,
    calibration_error,
    describe,
    everyday,
    reliability,
)
from experiments.default_model.tables import results
from experiments.default_model.texts import grammar_sentences
from experiments.default_model.train import HEADS_FILE, Options, train
from experiments.models.tables import trainings
from model.classifiers.head_files import save_head
from model.classifiers.sentiment_classifier import SentimentClassifier
from model.classifiers.steps import Calibration, Neutral, neutral_log_odds
from model.errors import InputError
from model.inference.tensors import load_tensors, save_tensors
from model.inference.weights import load_model, model_digest, save_model
from model.text.profiles import text_profile
from tests.support.heads import bag_of_ngrams, star_head
from tests.transfer.finetuning.tasks import StopAfter
from training.runs.rows import read_rows
from training.runs.signals import StopRequest
from transfer.intervals import paired_difference


@pytest.mark.parametrize("file", [TEST, VALIDATION])
def test_everyday_sentences_are_many_different_and_balanced(file):
    sentences = everyday_sentences(file)
    scored = [sentence for sentence in sentences if sentence.kind not in APART]
    labels = Counter(sentence.label for sentence in scored)
    assert len(scored) >= 300
    assert labels["positive"] == labels["negative"]
    assert len({sentence.text for sentence in sentences}) == len(sentences)


def test_models_are_chosen_by_other_sentences_than_they_are_tested_on():
    tested, chosen = (
        {normalized(sentence.text) for sentence in everyday_sentences(file)}
        for file in (TEST, VALIDATION)
    )
    assert len(tested & chosen) == 0
    assert tested | chosen == everyday_wordings()


@pytest.mark.parametrize("dressed", [False, True])
def test_the_grammar_makes_no_everyday_sentence(dressed):
    """Its sentences are checked as they stand, and with mistakes."""
    chooser = random.Random(0)

    def wording(sentence):
        return normalized(sentence.text if dressed else sentence.plain)

    drawn = {wording(draw(chooser)) for _ in range(20_000)}
    freely = {wording(drawn_freely(chooser)) for _ in range(20_000)}
    assert not drawn & everyday_wordings()
    assert freely & everyday_wordings()  # so that the line above could fail


def test_no_held_sentence_is_learned_with_mistakes():
    """Few words may be drawn, so that the same sentences come again, dressed in other ways."""
    plain = [
        Sentence(f"Fine {n % 10}{end}", f"Fine {n % 10}", "positive", "kind")
        for n, end in enumerate(("", ".", "!") * 20)
    ]
    drawn = iter(plain)
    examples = grammar_sentences(4, 16, random.Random(0), draw=lambda chooser: next(drawn))
    texts = [example.text for example in examples]
    held, learned = ({normalized(text) for text in part} for part in (texts[:4], texts[4:]))
    assert len(held) == 4
    assert learned
    assert not held & learned


def test_a_second_pass_has_some_texts_and_new_sentences_that_val_does_not_know(tmp_path):
    validation = [Example(draw(random.Random(n)).plain, "positive", "grammar") for n in range(40)]
    first = [Example(f"film {n % 9000}", "positive", "sst") for n in range(18_000)]
    write_examples(tmp_path / "val.jsonl", validation)
    write_examples(tmp_path / "train.jsonl", [*first, Example("noise", "1", "noisy")])
    write_texts(TextOptions(tmp_path, tmp_path / "second", sentences=300))
    examples = read_examples(tmp_path / "second/train.jsonl")
    assert Counter(example.source for example in examples) == {"sst": 7000, "grammar": 300}
    assert len({example.text for example in examples}) == 7300
    wordings = {normalized(example.text) for example in validation}
    assert not wordings & {normalized(example.text) for example in examples}
    assert read_examples(tmp_path / "second/val.jsonl") == validation


def test_the_average_lies_between_two_models(small_model, tmp_path):
    for name, factor in (("first", 1.0), ("second", 3.0)):
        scaled = {key: factor * value for key, value in small_model.state_dict().items()}
        model = copy.deepcopy(small_model)
        model.load_state_dict(scaled)
        save_model(tmp_path / name, model, text_profile("openai"), {"step": factor})
        save_tensors(tmp_path / name / HEADS_FILE, {"weight": torch.full((2, 3), factor)})
    average(AverageOptions(tmp_path / "first", tmp_path / "second", tmp_path / "mean"))
    loaded = load_model(tmp_path / "mean")
    first, second, mean = trainings(dict(loaded.provenance))
    assert (first, second) == ({"step": 1.0}, {"step": 3.0})
    assert mean["finetuned_from"] == second
    for key, value in small_model.state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[key], 2.0 * value)
    heads = load_tensors(tmp_path / "mean" / HEADS_FILE)
    torch.testing.assert_close(heads["weight"], torch.full((2, 3), 2.0))


@pytest.fixture
def training(small_model, tmp_path):
    """The options of a training of 10 steps."""
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    labels = {"positive": "good", "2": "bad", "neutral": "blue"}
    texts = [Example(f"{labels[of]} {n}", of, "sst") for n in range(223) for of in labels]
    write_examples(tmp_path / "val.jsonl", texts[:30])
    write_examples(tmp_path / "train.jsonl", texts[30:])
    return Options(model=str(tmp_path / "model"), texts=tmp_path, output=tmp_path / "whole")


def outcome(options):
    """Return what two equal trainings share: all but the clock."""
    rows = read_rows(options.output / "metrics.jsonl")
    last = options.output / "step-00000010"
    weights = [(last / name).read_bytes() for name in ("model.safetensors", HEADS_FILE)]
    return [{**row, "characters_per_second": None} for row in rows], weights


def test_a_training_that_was_killed_goes_on_and_ends_the_same(training, tmp_path):
    train(training, StopRequest())
    rows, _ = outcome(training)
    assert [row["step"] for row in rows] == [3, 6, 9, 10, 10]
    cut = replace(training, output=tmp_path / "cut")
    train(cut, StopAfter(5))
    with (cut.output / "metrics.jsonl").open("a") as file:  # rows of steps that are not saved
        file.write('{"step": 6, "sst": {"accuracy": 0.0}}\n{"step": 9, "ss')
    train(replace(cut, resume=True), StopRequest())
    assert outcome(cut) == outcome(training)


def test_the_slope_undoes_what_overstates_the_log_odds():
    chooser = np.random.default_rng(0)
    odds = chooser.normal(0, 2, 20_000)
    labels = (chooser.random(20_000) < 1 / (1 + np.exp(-odds))).astype(int)
    sources = np.where(np.arange(20_000) < 1000, "sst", "imdb")
    # Of 20,000 draws the slope's standard error is about 0.01.
    assert slopes(3 * odds[:, None], labels, sources) == pytest.approx([1 / 3], abs=0.03)


def head_of_five(digest="", **more):
    """A head whose answers depend on 24 features."""
    return star_head(calibration=Calibration(slope=0.8), factor=10, model_digest=digest, **more)


def test_neutral_answers_get_the_probability_that_they_are_right():
    chooser, count = np.random.default_rng(0), 20_000
    classifier, features = head_of_five(), chooser.normal(size=(count, 24)).astype(np.float32)
    odds = neutral_log_odds(of_each_star(classifier, features), 2)
    is_neutral = chooser.random(count) < 1 / (1 + np.exp(-0.5 * odds - 0.3))
    is_positive = chooser.random(count) < classifier.probabilities(features)
    labels = np.where(is_neutral, "neutral", np.where(is_positive, "positive", "negative"))
    sources = np.where(np.arange(count) < 2000, "everyday", "grammar")
    val = [Example("", *pair) for pair in zip(labels.tolist(), sources.tolist(), strict=True)]
    fitted, errors = with_neutral(classifier, features, val)
    # Of 2,000 draws, which weigh half, the standard errors are about 0.04.
    neutral = part(fitted, Neutral)
    assert (neutral.slope, neutral.offset) == pytest.approx((0.5, 0.3), abs=0.12)
    assert without_part(fitted, Neutral).steps == classifier.steps
    for row in errors.values():
        assert row["calibration_error"] < 0.05 < row["before"]
        assert max(row[answer] for answer in ("negative", "neutral", "positive")) < 0.05


def test_a_shipped_model_gets_neutral_answers_and_stays_the_same(
    small_model, tmp_path, monkeypatch, capsys
):
    folder, texts = tmp_path / "shipped" / "old", tmp_path / "texts"
    save_model(folder, small_model, text_profile("openai"), {}, quantized=True)
    digest = model_digest(load_model(folder, compute_dtype=torch.float32).model)
    bag = bag_of_ngrams(range(-40, 40), 0.01)
    save_head(folder / "classifier", head_of_five(digest, ngrams=bag), {"val_accuracy": {}})
    (folder / "classifier" / "areas.safetensors").write_bytes(b"areas")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    classifier = SentimentClassifier.from_pretrained(folder)
    read = [f"text {n * n}" for n in range(60)]
    each = classifier._found(read, partial(of_each_star, classifier.fitted))
    ranks = neutral_log_odds(each, 2).argsort().argsort()
    is_neutral = (ranks >= 30) ^ np.isin(ranks, [5, 15, 40, 50])  # mostly where the head says so
    labels = np.where(is_neutral, "neutral", np.where(ranks % 2, "5", "negative")).tolist()
    texts.mkdir()
    val = [Example(*pair, "everyday") for pair in zip(read, labels, strict=True)]
    write_examples(texts / "val.jsonl", val)
    words = ["ship", str(folder), "--texts", str(texts), "--name", "old"]
    monkeypatch.setattr("sys.argv", [*words, "--output", str(tmp_path / "shipped")])
    main()
    after = {path: path.read_bytes() for path in before}
    changed = [path for path in before if after[path] != before[path]]
    assert changed == [folder / "classifier" / "classifier.json"]
    description = json.loads(after[changed[0]])
    earlier = json.loads(before[changed[0]])
    (added,) = [step for step in description["steps"] if step not in earlier["steps"]]
    assert added["step"] == "neutral"
    assert added["slope"] > 0
    description["steps"].remove(added)
    assert "everyday" in description["origin"].pop("neutral")["val"]
    assert description == earlier
    assert "neutral: Neutral(" in capsys.readouterr().out


NGRAM_TEXTS = [
    *(Example(f"a good film {n}", "positive", "sst") for n in range(20)),
    *(Example(f"a bad film {n}", "negative", "sst") for n in range(20)),
    *(Example(f"not bad {n}", "5", "amazon") for n in range(20)),
    *(Example(f"a blue film {n}", "neutral", "grammar") for n in range(20)),
]


def test_a_bag_of_ngrams_learns_words_and_denials_and_that_facts_have_no_side():
    features = hashed(NGRAM_TEXTS, 2**12)
    bag = rounded(fitted(features, rarity_of(features), NGRAM_TEXTS, 1.0))
    good, bad, denied, blue, unknown = bag.log_odds(["good", "bad film", "not bad", "blue", "xyz"])
    assert min(good, -bad, denied) > 0.5
    assert abs(blue) < 0.1
    assert unknown == 0
    assert np.abs(bag.weights.astype(int)).max() == 127
    sided = [example for example in NGRAM_TEXTS if example.label != "neutral"]
    assert accuracies(bag, sided) == {"amazon": 1.0, "sst": 1.0}


def test_the_limits_admit_nearly_all_familiar_texts():
    chooser = np.random.default_rng(0)
    lengths = chooser.integers(5, 500, 2000)
    bits = lengths * chooser.normal(1.5, 0.1, 2000) + chooser.normal(10, 3, 2000)
    limits = familiar(bits, lengths)
    most = limits.bits_per_character * lengths + limits.bits
    assert 0.975 <= (bits <= most).mean() < 1
    assert not (lengths * 3.0 <= most)[lengths > 30].any()


def test_unsure_is_where_neutral_texts_are_and_others_are_not():
    positive = np.array([0.45, 0.55, 0.62, 0.9, 0.1, 0.7, 0.2, 0.95])
    labels = np.array([-1, -1, -1, 1, 0, 1, 0, 1])
    sources = np.array(["grammar"] * 3 + ["sst", "sst", "imdb", "imdb", "amazon"])
    low, high = doubt(positive, labels, sources)
    assert 0.62 <= high < 0.7
    assert low + high == pytest.approx(1)


def test_confidence_that_holds_has_no_calibration_error():
    positive = np.repeat([0.8, 0.2, 0.6], [100, 100, 50])
    labels = np.repeat([1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [80, 20, 80, 20, 30, 20])
    assert calibration_error(reliability(positive, labels)) == pytest.approx(0, abs=1e-9)
    assert calibration_error(reliability(1 - positive, labels)) == pytest.approx(0.52, abs=1e-9)


@pytest.mark.parametrize("texts", [8, 1821])
def test_answers_are_kept_so_that_two_methods_can_be_compared_text_by_text(texts):
    chooser = np.random.default_rng(0)
    labels, first, second = chooser.integers(0, 2, (3, texts)).astype(float)
    data = SetOfTexts([""] * texts, labels)
    rows = [json.loads(json.dumps(describe(Answers(answers), data))) for answers in (first, second)]
    assert all(len(row["right"]) <= texts / 4 + 2 for row in rows)
    difference = paired_difference(*map(answers_of, rows))
    assert difference == paired_difference(first == labels, second == labels)


def test_the_sentences_with_a_side_are_those_that_results_count():
    labels = [s.label for s in everyday_sentences() if s.kind not in APART]
    sided = sum(label in ("positive", "negative") for label in labels)
    for row in results().values():
        right = row["everyday"]["sided_accuracy"] * sided
        assert right == pytest.approx(round(right), abs=1e-9)
    assert sided == 300


def test_everyday_sentences_count_by_the_answers():
    sentences = everyday_sentences()
    sides = {"positive": 0.9, "negative": 0.1}
    strange = np.array([sentence.kind == "unfamiliar" for sentence in sentences])
    positive = np.array([sides.get(sentence.label, 0.5) for sentence in sentences])
    perfect = everyday(Answers(positive, positive == 0.5, strange))
    assert perfect["accuracy"] == 1
    assert perfect["failures"] == []
    worst = everyday(Answers(1 - positive, positive != 0.5, ~strange))
    assert worst["accuracy"] == 0
    assert len(worst["failures"]) == len(sentences)
    assert worst["falsely_unfamiliar"] == 1


def test_a_neutral_band_has_the_highest_macro_f1():
    chooser = np.random.default_rng(0)
    classes = chooser.integers(0, 3, 60)
    scores = np.round(classes / 2 + chooser.normal(0, 0.4, 60), 1)  # with ties
    band = fit_band(scores, classes)

    def macro_f1(low, high):
        choices = Band(low, high).choose(scores)
        return f1_score(classes, choices, average="macro", zero_division=0)

    ends = np.unique(scores)
    best = max(macro_f1(low, high) for low in ends for high in ends[ends >= low])
    assert macro_f1(*band) == pytest.approx(best)
    described = three_classes(band.choose(scores), classes)
    assert described["macro_f1"] == pytest.approx(best)


def test_remarks_are_judged_without_keeping_their_words(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text(
        "label\tkind\ttext\npos\tplain\tgood one\nneg\tidiom\tbad one\nneutral\tplain\tit\n"
    )
    remarks = read_remarks(path)
    own = own_remarks()
    of_own = Answers(own.classes / 2, neutral=own.classes == 1)
    answers = Answers(
        np.array([0.9, 0.5, 0.5]), np.array([True] * 3), neutral=np.array([False] * 3)
    )
    result = describe_remarks(answers, of_own, remarks)
    assert result["validation"]["accuracy"] == result["validation"]["sided_accuracy"] == 1
    assert result["test"]["sided_accuracy"] == 1  # a tie counts as negative
    assert result["test"]["accuracy"] == pytest.approx(2 / 3)
    assert result["as_shipped"]["accuracy"] == pytest.approx(1 / 3)
    assert result["own_answers"]["validation"]["accuracy"] == 1
    assert result["own_answers"]["test"]["accuracy"] == pytest.approx(2 / 3)
    assert "own_answers" not in describe_remarks(answers._replace(neutral=None), of_own, remarks)
    assert "one" not in json.dumps(result["test"]).replace("none", "")
    path.write_text("label\tkind\ttext\nmixed\tplain\tso so\n")
    with pytest.raises(InputError, match="row 2: label 'mixed'"):
        read_remarks(path)


def test_a_sentence_is_near_another_by_the_words_that_both_have():
    learned = ["It never broke.", "A new cup, blue"]
    similarities = nearest(["it NEVER broke!", "a new red cup", "nothing"], learned)
    assert similarities.tolist() == [1, 3 / 5, 0]
