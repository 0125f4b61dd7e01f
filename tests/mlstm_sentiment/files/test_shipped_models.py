"""Every shipped model loads offline, says where it comes from, and separates good from bad."""

import socket

import numpy as np
import pytest

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.demo.page import demo_page
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.head.head_files import CONFIG_FILE, FOLDER, FORMAT_VERSION, own_classifier
from model.inference.weights import load_model
from tests.mlstm_sentiment.demo.models import about

NAMES = sorted(path.name for path in SHIPPED_MODELS.iterdir() if path.is_dir())
BUDGET = 30 * 10**6  # bytes of all of them together
PAIRS = [
    ("I love it. It works perfectly and looks beautiful.", "I hate it. It broke at once, a waste."),
    ("A wonderful, moving film, superbly acted.", "A dull, stupid film, terribly acted."),
    ("Excellent quality. I highly recommend it.", "Terrible quality. I want my money back."),
]

PRAISE = ["It never disappoints me.", "Five stars for the lamp.", "I can recommend it.", "lamp 👍"]
BLAME = ["This lamp is not good at all.", "I would never buy it again.", "1 star for it", "lamp 👎"]
FACTS = ["The lamp was delivered on Monday.", "The lamp is made of steel."]
STRANGE = ["", "!", "qxzv wkjh zzqp vvxk jjqw", "这盏灯非常好我很喜欢。"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def refuse(*_):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket, "socket", refuse)


def test_they_are_small_enough_for_a_repository():
    files = [path for path in SHIPPED_MODELS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= BUDGET


def test_every_command_shows_the_same_unit_of_the_default():
    """It is the unit whose usual spread, last and mean, moves an average text the most."""
    loaded = load_model("default")
    own = own_classifier(loaded)
    center, spread = own.steps[0].center, own.steps[0].scale
    H = loaded.model.config.hidden_size
    one_hot = np.tile(np.eye(H, dtype=np.float32), (1, len(own.kind.poolings)))  # [H, F]
    no_words = [""] * H
    features = center + 0.1 * spread * one_hot
    moved = own.answer(features, no_words).scores - own.answer(center[None], [""]).scores
    unit = int(np.abs(moved).argmax())
    assert (own.neuron, own.polarity) == (unit, np.sign(moved[unit]))
    page = demo_page(loaded, own, "Title")
    assert about(page)["unit"] == unit
    assert about(page)["head"]["neuron"]["polarity"] == own.polarity


@pytest.mark.parametrize("name", NAMES)
def test_its_classifier_prefers_praise(name):
    classifier = SentimentClassifier.from_pretrained(name, sides=True)
    praise, blame = (classifier.decision_function([pair[i] for pair in PAIRS]) for i in (0, 1))
    assert np.mean(praise > blame) > 0.5
    description = read_json(SHIPPED_MODELS / name / FOLDER / CONFIG_FILE)
    assert description["format_version"] == FORMAT_VERSION


@pytest.fixture(scope="module")
def default():
    return SentimentClassifier.from_pretrained()


def test_the_default_separates_praise_from_blame_in_a_few_words(default):
    """These sentences are of no set: the everyday sentences are for measuring only."""
    answers = default.predict_all(PRAISE + BLAME)
    assert not answers.is_neutral.any()
    assert answers.choices.tolist() == [1] * len(PRAISE) + [0] * len(BLAME)
    assert (answers.stars[: len(PRAISE)] > 3).all()
    assert (answers.stars[len(PRAISE) :] < 3).all()
    assert not answers.unfamiliar.any()


def test_the_default_flags_texts_that_it_should_not_be_trusted_on(default):
    answers = default.predict_all([*FACTS, *STRANGE])
    assert answers.unsure[: len(FACTS)].all()
    assert answers.is_neutral[: len(FACTS)].all()
    assert answers.unfamiliar[len(FACTS) :].all()
