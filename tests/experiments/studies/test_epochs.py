"""The study of epochs: its part of a corpus is the beginning, and its table is of its runs."""

import pytest

from data_utils.corpus import open_corpus
from data_utils.preparation.checking import check_corpus
from data_utils.preparation.preparation import Preparation, prepare_corpus
from experiments.epochs.part import make_part
from experiments.epochs.report import line, scored
from model.errors import InputError


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"review {i:03d}\n" for i in range(100)))
    prepare_corpus([tmp_path / "in.txt"], tmp_path / "whole", Preparation(split=(8, 1, 1)))
    return tmp_path / "whole"


@pytest.mark.parametrize(("wanted", "reviews"), [(1, 1), (13, 1), (14, 2), (13 * 80, 80)])
def test_a_part_is_the_first_reviews_that_have_the_bytes(corpus, tmp_path, wanted, reviews):
    """Each review takes 13 bytes: newline, space, text, space... as in the papers."""
    whole, part = open_corpus(corpus).splits, tmp_path / "part"
    assert set(whole["train"].offsets[1:] - whole["train"].offsets[:-1]) == {13}
    assert make_part(corpus, part, wanted)["reviews"] == reviews
    found = open_corpus(part).splits
    assert found["train"].tokens.tobytes() == whole["train"].tokens[: 13 * reviews].tobytes()
    for name in ("valid", "test"):
        assert found[name].tokens.tobytes() == whole[name].tokens.tobytes()
    check_corpus(part)


def test_a_part_is_refused_that_is_no_part(corpus, tmp_path):
    with pytest.raises(InputError, match="whole: give a corpus of bytes that has 1,041 to learn"):
        make_part(corpus, tmp_path / "part", 13 * 80 + 1)
    with pytest.raises(InputError, match="whole: exists already"):
        make_part(corpus, corpus, 13)


def run_of(bits):
    rows = [
        {"characters": 1e6 * i, "valid_bits_per_character": each, "train_bits_per_character": 1.5}
        for i, each in enumerate(bits, start=1)
    ]
    rows.insert(1, {"characters": 1.5e6, "train_bits_per_character": 1.9})
    accuracies = {"all_units": {"test_accuracy": 0.625}}
    return {
        "characters": 3_000_000,
        "rows": rows,
        "valid_bits_per_character": bits[-1],
        "sst": {"last": accuracies, "mean": accuracies},
    }


def test_the_line_of_a_run_has_the_end_and_the_least():
    runs = [run_of([2.0, 1.5, 1.75]), run_of([2.0, 1.625, 1.875])]
    assert list(scored(runs[0])) == [(1, 2.0), (2, 1.5), (3, 1.75)]
    cells = list(line("name", runs))
    assert cells[:3] == ["`name`", "3", "1.500 (1.500 to 1.500; 2 seeds)"]
    assert cells[3].startswith("1.812 (1.750 to 1.875")
    assert cells[4].startswith("1.562 (1.500 to 1.625")
    assert cells[5] == cells[6] == "62.5 (62.5 to 62.5; 2 seeds)"
