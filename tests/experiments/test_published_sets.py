"""Published sets: layouts on made-up files, splits, and what an entry says."""

import gzip
import json

import numpy as np
import pytest

from data_utils.published_sets.registry import DATASETS
from data_utils.synthetic import synthetic_reviews
from experiments.published_sets import EMOTIONS, FOLDS, SETS, ten_folds
from mlstm_sentiment.errors import InputError


def sizes(fold):
    return [len(part) for part in (fold.train, fold.val, fold.test)]


def write_tables(folder, count=20):
    folder.mkdir()
    for name in ("train", "val", "test"):
        rows = [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=len(name))]
        (folder / f"{name}.csv").write_text("\n".join(["label,sentence", *rows]) + "\n")


def test_every_example_is_tested_in_one_fold_and_fitted_in_the_rest():
    folds = ten_folds([53, 50])
    assert len(folds) == FOLDS
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(103))
    published = np.random.default_rng(0).permutation(103)  # the folds of the published results
    assert folds[0].test.tolist() == published[:11].tolist()
    for fold in folds:
        parts = np.concatenate([fold.train, fold.val, fold.test])
        assert sorted(parts) == list(range(103))
        assert abs(len(fold.val) - len(fold.test)) <= 1


def test_a_set_with_three_parts_keeps_them(tmp_path):
    write_tables(tmp_path / "sst")
    task = SETS["sst"].read(tmp_path)
    (fold,) = task.folds
    assert sizes(fold) == [20, 20, 20]
    assert np.concatenate([fold.train, fold.val, fold.test]).tolist() == list(range(60))
    assert [part.texts for part in task.sets] == [task.texts.texts[i : i + 20] for i in (0, 20, 40)]


@pytest.mark.parametrize(
    ("names", "opened"),
    [("imdb_{}.jsonl.gz", gzip.open), ("{}.jsonl", open)],  # the latter as downloaded
)
def test_a_fifth_of_the_film_reviews_to_train_on_is_val(tmp_path, names, opened):
    (tmp_path / "imdb").mkdir()
    for part in ("train", "test"):
        reviews = [json.dumps(r._asdict()) + "\n" for r in synthetic_reviews(80, seed=len(part))]
        with opened(tmp_path / "imdb" / names.format(part), "wt") as file:
            file.writelines(reviews)
    assert SETS["imdb"].is_in(tmp_path)
    (fold,) = SETS["imdb"].read(tmp_path).folds
    assert fold.test.tolist() == list(range(80, 160))
    assert sorted([*fold.train, *fold.val]) == list(range(80))
    assert len(fold.val) == 16


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_files_by_class_are_read_in_either_encoding(tmp_path, encoding):
    (tmp_path / "mr").mkdir()
    for name, word in (("neg", "bad"), ("pos", "good")):
        lines = [f"{word} {n}" for n in range(10)]
        path = tmp_path / "mr" / f"rt-polarity.{name}"
        path.write_text("\n".join([*lines, "", " d\xe9j\xe0 vu "]) + "\n", encoding=encoding)
    texts = SETS["mr"].read(tmp_path).texts
    assert texts.texts.count("d\xe9j\xe0 vu") == 2
    assert texts.labels.tolist() == [0] * 11 + [1] * 11
    assert texts.texts[0] == "bad 0"


def test_emotions_are_read_and_split(tmp_path):
    (tmp_path / "semeval").mkdir()
    for name, count in (("train", 200), ("val", 60)):
        head = ",".join(("ID", "Tweet", *EMOTIONS))
        rows = [f"{n},tweet {n}{',0' * 10},{n % 2}" for n in range(count)]
        (tmp_path / f"semeval/{name}.csv").write_text("\n".join([head, *rows]) + "\n")
    task = SETS["semeval"].read(tmp_path)
    assert task.texts.labels.shape == (260, 11)
    (fold,) = task.folds
    assert sizes(fold) == [180, 20, 60]
    assert sorted([*fold.train, *fold.val]) == list(range(200))
    assert fold.test.tolist() == list(range(200, 260))
    path = tmp_path / "semeval/val.csv"
    path.write_text(path.read_text().replace(",0,", ",2,", 1))
    with pytest.raises(InputError, match=r"val\.csv, line 2: .* a label is 0 or 1"):
        SETS["semeval"].read(tmp_path)


def test_tweets_of_all_parts_are_read_in_the_form_of_train(tmp_path):
    """The train part has neither names nor marks; a model must not be tested on them."""
    (tmp_path / "semeval").mkdir()
    tweets = {
        "train": "so #happy @you: \U0001f600 fine",
        "val": "\"I'm @some_one's #un_happy\\nfriend &amp; foe\"",
    }
    for name, tweet in tweets.items():
        head = ",".join(("ID", "Tweet", *EMOTIONS))
        cells = ",".join(["7", '"' + tweet.replace('"', '""') + '"', *"01000000000"])
        (tmp_path / f"semeval/{name}.csv").write_text("\n".join([head, *[cells] * 20]) + "\n")
    texts = SETS["semeval"].read(tmp_path).texts.texts
    assert set(texts[:20]) == {"so happy : fine"}
    assert set(texts[20:]) == {"I'm 's unhappy friend & foe"}


@pytest.mark.parametrize("name", SETS)
def test_what_is_not_there_is_named_with_how_to_get_it(tmp_path, name):
    entry = SETS[name]
    assert not entry.is_in(tmp_path)
    source = DATASETS[name]
    way = f"download_data.py {name} " if source.files else f"by hand from {source.page}"
    with pytest.raises(InputError) as error:
        entry.read(tmp_path)
    assert f"{tmp_path / name / entry.layout.files[0]}: no such file" in str(error.value)
    assert way in str(error.value)
