"""The sentences that the default model is trained on and held against."""

import copy
import json
import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.default_model.fit_ngrams import (
    accuracies,
    as_read,
    fitted,
    hashed,
    rarity_of,
    rounded,
)
from experiments.default_model.methods import Told
from experiments.default_model.second_pass import (
    AverageOptions,
    TextOptions,
    average,
    write_texts,
)
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
from experiments.default_model.sentences.grammar import (
    DOMAINS,
    GRAMMAR,
    SLOT,
    WORDS,
    Sentence,
    draw,
    drawn_freely,
    filled,
)
from experiments.default_model.sentences.noise import mistyped, noisy
from experiments.default_model.sentences.rare import contradicts, cue_of, noisy_copies, rare_texts
from experiments.default_model.ship import doubt, familiar, slopes
from experiments.default_model.study import TestSet as SetOfTexts
from experiments.default_model.study import (
    answers_of,
    calibration_error,
    describe,
    everyday,
    reliability,
)
from experiments.default_model.tables import results, sided_sentences
from experiments.default_model.texts import (
    first_sentences,
    grammar_sentences,
    last_sentences,
    part_of,
    parts_of,
)
from experiments.default_model.train import (
    HEADS_FILE,
    Options,
    admitted_of,
    head_of,
    stars_loss,
    train,
)
from experiments.shipped.tables import trainings
from model.classifiers.ngrams import buckets_of
from model.errors import InputError
from model.files.locks import lock_folder
from model.files.shipped import find_model
from model.files.weights import load_model, load_tensors, save_model, save_tensors
from model.text.profiles import text_profile
from tests.transfer.finetuning.tasks import StopAfter
from training.metrics import read_rows
from training.runs.signals import StopRequest
from transfer.intervals import paired_difference

LABELS = {"positive", "negative", "neutral", "1", "2", "3", "4", "5"}


@pytest.mark.parametrize("file", [TEST, VALIDATION])
def test_everyday_sentences_are_many_different_and_balanced(file):
    sentences = everyday_sentences(file)
    counted = [sentence for sentence in sentences if sentence.kind not in APART]
    labels = Counter(sentence.label for sentence in counted)
    assert len(counted) >= 300
    assert labels["positive"] == labels["negative"]
    assert len({sentence.text for sentence in sentences}) == len(sentences)


def test_models_are_chosen_by_other_sentences_than_they_are_tested_on():
    tested, chosen = (
        {normalized(sentence.text) for sentence in everyday_sentences(file)}
        for file in (TEST, VALIDATION)
    )
    assert len(tested & chosen) == 0
    assert tested | chosen == everyday_wordings()


def test_a_sentence_is_known_again_whatever_its_signs_and_capitals():
    assert normalized("I DON'T like it!!") == normalized("I dont like it.")
    assert normalized("I don\N{RIGHT SINGLE QUOTATION MARK}t") == normalized("i dont")
    assert normalized("👍 ") == "👍"
    assert normalized("👍") != normalized("👎")


@pytest.mark.parametrize("dressed", [False, True])
def test_the_grammar_makes_no_everyday_sentence(dressed):
    """Neither as it stands nor with mistakes."""
    chooser = random.Random(0)

    def wording(sentence):
        return normalized(sentence.text if dressed else sentence.plain)

    drawn = {wording(draw(chooser)) for _ in range(20_000)}
    freely = {wording(drawn_freely(chooser)) for _ in range(20_000)}
    assert not drawn & everyday_wordings()
    assert freely & everyday_wordings()  # so that the line above could fail


def test_every_slot_has_words_in_every_domain_and_every_word_a_slot():
    tables = [table for by_label in GRAMMAR.values() for table in by_label.values()]
    of_words = [table for part in (WORDS, *DOMAINS.values()) for table in part.values()]
    used = {slot for table in tables + of_words for text in table for slot in SLOT.findall(text)}
    assert used == set(WORDS).union(*DOMAINS.values())
    for domain in DOMAINS.values():
        assert used == {*WORDS, *domain}


@pytest.mark.parametrize("word", ["useful", "unique", "unhelpful", "awful", "bad", "European"])
def test_an_article_fits_its_word(word):
    article = "an" if word in ("unhelpful", "awful") else "a"
    assert filled(f"a {word} thing", random.Random(0)) == f"{article} {word} thing"


def test_the_grammar_draws_every_kind_and_label_and_the_same_ones_again():
    first, again = (random.Random(3), random.Random(3))
    sentences = [draw(first) for _ in range(2000)]
    assert sentences == [draw(again) for _ in range(2000)]
    assert {sentence.kind for sentence in sentences} == set(GRAMMAR)
    assert {sentence.label for sentence in sentences} == LABELS
    assert not any("{" in sentence.text or not sentence.text.strip() for sentence in sentences)


@pytest.mark.parametrize("text", ["good", "a", ":)", "👍"])
def test_a_mistyped_text_keeps_its_first_sign_and_its_emoji(text):
    for seed in range(20):
        result = mistyped(text, random.Random(seed))
        assert result[0] == text[0]
        assert text.isalpha() or result == text


def test_noise_leaves_short_words_so_that_a_denial_stays():
    for seed in range(50):
        mistaken = mistyped("not so bad, no", random.Random(seed))
        assert mistaken == "not so bad, no"
        assert "not" in noisy("It is not so bad, I like it", random.Random(seed)).lower().split()


@pytest.mark.parametrize(
    ("text", "stars", "is_wrong"),
    [
        ("Great and beautiful", 1, True),
        ("Terrible", 5, True),
        ("Not good", 4, True),
        ("Never a bad day with it", 2, True),
        ("Never a bad day with it", 5, False),
        ("Great idea but broken", 1, False),
        ("Great idea, terrible parts", 1, False),
        ("Terrible", 3, False),
        ("A lamp", 1, False),
    ],
)
def test_words_that_contradict_the_stars_are_found(text, stars, is_wrong):
    assert contradicts(text, stars) == is_wrong


def test_rare_texts_have_each_cue_as_often_as_asked_and_none_is_taken():
    texts = {"negation": "No use {}", "ratings": "4/5 for {}", "contrast": "Odd but {}"}
    pool = [
        Example(text.format(place), str(1 + place % 5), "titles")
        for text in texts.values()
        for place in range(50)
    ]
    pool += [Example("No use. Odd.", "1", "titles"), Example("no use " * 30, "1", "amazon")]
    taken, most = {"no use 7", "odd but 8"}, {"negation": 20, "contrast": 100}
    chosen = rare_texts(pool, taken, random.Random(0), most)
    assert chosen == rare_texts(pool, taken, random.Random(0), most)
    assert {example.text for example in chosen} < {example.text for example in pool[:150]}
    counts = Counter((cue_of(example.text), example.label) for example in chosen)
    assert all(counts["negation", stars] == 4 for stars in "12345")
    assert [counts["contrast", stars] for stars in "12345"] == [10, 10, 10, 9, 10]
    assert not counts["ratings", "1"]
    assert not {"No use 7", "Odd but 8"} & {example.text for example in chosen}


def test_noisy_copies_are_of_short_texts_and_keep_their_labels():
    examples = [Example(f"A fine toy number {n}", "positive", "rare") for n in range(9)]
    copies = noisy_copies([*examples, Example("long " * 40, "1", "imdb")], 20, random.Random(0))
    assert len(copies) == 9
    assert {(copy.label, copy.source) for copy in copies} == {("positive", "noisy")}


def test_sentences_of_the_grammar_differ_and_none_is_everyday():
    texts = [example.text for example in grammar_sentences(50, 250, random.Random(0))]
    assert len(set(texts)) == 300
    assert not {normalized(text) for text in texts} & everyday_wordings()


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


@pytest.mark.parametrize("seed", range(12))
def test_a_part_of_a_review_is_whole_sentences_that_fit(seed):
    sentences = [f"Sentence {place} of it." for place in range(30)]
    part = part_of(" ".join(sentences), 60, random.Random(seed))
    assert 0 < len(part) <= 61  # of two halves, with a space between
    assert all(f"{sentence}." in sentences for sentence in part.rstrip(".").split(". "))


def test_a_long_review_gives_several_parts_and_a_short_one_itself():
    sentences = [f"Sentence number {number} of a review." for number in range(30)]
    long, short = (Example(text, "negative", "imdb") for text in (" ".join(sentences), "Short."))
    parts = parts_of([long, short], 4, random.Random(0))
    assert parts[4:] == [short]
    assert len({part.text for part in parts[:4]}) > 1
    assert all(len(part.text) <= 300 and part.label == "negative" for part in parts[:4])


def test_a_part_of_one_long_sentence_is_cut_between_words():
    words = "word " * 50
    assert set(last_sentences(words.strip(), 42).split()) == {"word"}
    assert set(first_sentences(words.strip(), 42).split()) == {"word"}


def test_a_second_pass_has_some_texts_and_new_sentences_that_val_does_not_know(tmp_path):
    known = [Example(draw(random.Random(n)).plain, "positive", "grammar") for n in range(40)]
    first = [Example(f"film {n % 9000}", "positive", "sst") for n in range(18_000)]
    write_examples(tmp_path / "val.jsonl", known)
    write_examples(tmp_path / "train.jsonl", [*first, Example("noise", "1", "noisy")])
    write_texts(TextOptions(tmp_path, tmp_path / "second", sentences=300))
    found = read_examples(tmp_path / "second/train.jsonl")
    assert Counter(example.source for example in found) == {"sst": 7000, "grammar": 300}
    assert len({example.text for example in found}) == 7300
    wordings = {normalized(example.text) for example in known}
    assert not wordings & {normalized(example.text) for example in found}
    assert read_examples(tmp_path / "second/val.jsonl") == known


def test_the_average_lies_between_two_models(small_model, tmp_path):
    for name, factor in (("first", 1.0), ("second", 3.0)):
        scaled = {key: factor * value for key, value in small_model.state_dict().items()}
        model = copy.deepcopy(small_model)
        model.load_state_dict(scaled)
        save_model(tmp_path / name, model, text_profile("openai"), {"step": factor})
        save_tensors(tmp_path / name / HEADS_FILE, {"weight": torch.full((2, 3), factor)})
    average(AverageOptions(tmp_path / "first", tmp_path / "second", tmp_path / "mean", share=0.25))
    found = load_model(tmp_path / "mean")
    first, second, mean = trainings(dict(found.provenance))
    assert (first, second) == ({"step": 1.0}, {"step": 3.0})
    assert mean["finetuned_from"] == second
    for key, value in small_model.state_dict().items():
        torch.testing.assert_close(found.model.state_dict()[key], 1.5 * value)
    heads = load_tensors(tmp_path / "mean" / HEADS_FILE)
    torch.testing.assert_close(heads["weight"], torch.full((2, 3), 1.5))


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
    """What two trainings have to agree on: all but the clock."""
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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"head_lr": 0.5}, "was begun with head_lr 0.001"),
        ({"texts": "other"}, "was begun with other texts or labels"),
        ({"resume": False}, "exists already"),
    ],
)
def test_a_training_is_resumed_with_what_it_began_with(training, tmp_path, changes, told):
    train(training, StopAfter(1))
    (tmp_path / "other").mkdir()
    for part in ("val", "train"):
        write_examples(tmp_path / f"other/{part}.jsonl", [Example("good", "5", "sst")])
    if "texts" in changes:
        changes = {"texts": tmp_path / "other"}
    with pytest.raises(InputError, match=told):
        train(replace(training, **{"resume": True, **changes}), StopRequest())


def test_a_folder_has_one_training_at_a_time(training):
    with lock_folder(training.output), pytest.raises(InputError, match=r"process .* has held it"):
        train(training, StopRequest())


def test_a_training_that_diverges_says_so(training):
    with pytest.raises(InputError, match=r"step \d+: .* not finite; try a lower --head-lr"):
        train(replace(training, head_lr=1e38), StopRequest())


def test_a_label_admits_stars_and_the_loss_is_minus_the_log_of_their_probability():
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.3, 0.25, 0.15]]]))
    positive = admitted_of("positive").unsqueeze(0)
    assert stars_loss(logits, positive).item() == pytest.approx(-math.log(0.4), abs=1e-6)


def test_the_head_of_a_training_or_of_a_shipped_model_is_found(tmp_path):
    assert head_of(find_model("amazon_1024")) is None
    shipped = find_model("stars_512")
    assert head_of(shipped) == shipped / "classifier" / "classifier.safetensors"
    (tmp_path / HEADS_FILE).touch()
    assert head_of(tmp_path) == tmp_path / HEADS_FILE


def test_the_slope_undoes_what_overstates_the_log_odds():
    chooser = np.random.default_rng(0)
    odds = chooser.normal(0, 2, 20_000)
    labels = (chooser.random(20_000) < 1 / (1 + np.exp(-odds))).astype(int)
    sources = np.where(np.arange(20_000) < 1000, "sst", "imdb")
    # Of 20,000 draws the slope's standard error is about 0.01.
    assert slopes(3 * odds[:, None], labels, sources) == pytest.approx([1 / 3], abs=0.03)


def test_the_slopes_of_two_log_odds_weigh_the_one_that_knows_more():
    chooser = np.random.default_rng(0)
    odds = chooser.normal(0, 2, (20_000, 2))
    labels = (chooser.random(20_000) < 1 / (1 + np.exp(-odds @ [0.5, 2.0]))).astype(int)
    sources = np.repeat(["sst", "imdb"], [15_000, 5_000])
    assert slopes(odds, labels, sources) == pytest.approx([0.5, 2.0], abs=0.1)


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


def test_what_the_fit_reads_is_what_the_model_sums():
    features = hashed(NGRAM_TEXTS, 2**12)
    weights = np.random.default_rng(0).normal(size=2**12)
    bag = rounded(weights)
    texts = [example.text for example in NGRAM_TEXTS]
    np.testing.assert_allclose(bag.log_odds(texts), features @ (bag.weights * bag.scale), rtol=1e-5)
    np.testing.assert_allclose(bag.weights * bag.scale, weights, atol=bag.scale / 2)


def test_the_bag_is_fitted_to_what_the_classifier_reads():
    (example,) = as_read([Example(" not&nbsp;bad &amp; good\n", "5", "amazon")])
    assert example == Example("not\u00a0bad & good", "5", "amazon")
    found = buckets_of(text_profile("openai").encode(" not&nbsp;bad &amp; good\n").decode(), 99)
    np.testing.assert_array_equal(np.sort(buckets_of(example.text, 99)), np.sort(found))


def test_the_limits_admit_nearly_all_familiar_texts():
    chooser = np.random.default_rng(0)
    lengths = chooser.integers(5, 500, 2000)
    bits = lengths * chooser.normal(1.5, 0.1, 2000) + chooser.normal(10, 3, 2000)
    limits = familiar(bits, lengths)
    assert 0.975 <= limits.admits(bits, lengths).mean() < 1
    assert not limits.admits(lengths * 3.0, lengths)[lengths > 30].any()


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
    given = SetOfTexts([""] * texts, labels)
    kept = [json.loads(json.dumps(describe(Told(told), given))) for told in (first, second)]
    assert all(len(row["right"]) <= texts / 4 + 2 for row in kept)
    found = paired_difference(*map(answers_of, kept))
    assert found == paired_difference(first == labels, second == labels)


def test_the_sentences_with_a_side_are_those_that_results_count():
    for row in results().values():
        right = row["everyday"]["sided_accuracy"] * sided_sentences()
        assert right == pytest.approx(round(right), abs=1e-9)
    assert sided_sentences() == 300


def test_everyday_sentences_count_by_what_was_told():
    sentences = everyday_sentences()
    sides = {"positive": 0.9, "negative": 0.1}
    strange = np.array([sentence.kind == "unfamiliar" for sentence in sentences])
    positive = np.array([sides.get(sentence.label, 0.5) for sentence in sentences])
    perfect = everyday(Told(positive, positive == 0.5, strange))
    assert perfect["accuracy"] == 1
    assert perfect["failures"] == []
    worst = everyday(Told(1 - positive, positive != 0.5, ~strange))
    assert worst["accuracy"] == 0
    assert len(worst["failures"]) == len(sentences)
    assert worst["falsely_unfamiliar"] == 1
