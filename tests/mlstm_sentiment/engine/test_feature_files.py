"""Files of features: whole or absent."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mlstm_sentiment.commands import featurize
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.engine.features import TextFeatures, write_features
from mlstm_sentiment.engine.kinds import FeatureKind
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_atomically
from mlstm_sentiment.reading import rows
from mlstm_sentiment.reading.source import Source
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.features import features_in_order
from model.inference.weights import LoadedModel, save_model
from tests.support.folders import contents

TEXTS = [BYTES.encode(f"text number {i} ".encode() * (1 + i % 5)) for i in range(30)]


@pytest.fixture
def reading(small_model):
    return TextFeatures(LoadedModel(small_model, text_profile("raw"), Path("model")), TEXTS)


def write(path, reading, advance=lambda count: None):
    write_features(path, reading.shape, [reading], advance)


def test_a_file_is_whole_or_not_there(tmp_path, reading, small_model):
    path, counts = tmp_path / "x.npy", []
    write_atomically(path, lambda file: file.write_bytes(b"before"), "features")

    def stop(count):
        counts.append(count)
        if sum(counts) > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, reading, stop)
    assert path.read_bytes() == b"before"
    assert [left.name for left in contents(tmp_path)] == ["x.npy"]
    counts.clear()
    write(path, reading, counts.append)
    assert sum(counts) == reading.tokens == sum(map(len, TEXTS))
    np.testing.assert_array_equal(np.load(path), features_in_order(small_model, TEXTS))
    assert [left.name for left in contents(tmp_path)] == ["x.npy"]


def test_a_last_part_may_be_empty(tmp_path, reading, small_model):
    """Rows come in batches, and the last one may have none."""
    chosen = replace(reading, kind=FeatureKind(units=(3, 1)))
    parts = [chosen, replace(chosen, sequences=[])]
    write_features(tmp_path / "x.npy", chosen.shape, parts, lambda count: None)
    expected = features_in_order(small_model, TEXTS)[:, [3, 1]]
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected)


@pytest.mark.parametrize("rows", [29, 31])
def test_more_or_fewer_texts_than_before_are_refused(tmp_path, reading, rows):
    shape = (rows, reading.shape[1])
    with pytest.raises(InputError, match="has changed while it was read"):
        write_features(tmp_path / "x.npy", shape, [reading], lambda count: None)
    assert not list(contents(tmp_path))


def test_readings_of_other_features_have_other_digests(reading, small_model):
    """With equal digests one would continue the features of the other."""
    kinds = [
        FeatureKind(state="hidden"),
        FeatureKind(pooling="mean"),
        FeatureKind(tanh=True),
        FeatureKind(units=[1, 0]),
        FeatureKind(units=[0, 1]),
    ]
    cut_elsewhere = [TEXTS[0][:-1], np.concatenate([TEXTS[0][-1:], TEXTS[1]]), *TEXTS[2:]]
    others = [
        *(replace(reading, kind=kind) for kind in kinds),
        *(replace(reading, sequences=texts) for texts in (TEXTS[:-1], TEXTS[::-1], cut_elsewhere)),
    ]
    digests = [reading.digest(), *(other.digest() for other in others)]
    for precision in ("bf16", "fp16"):
        small_model.set_precision(precision)
        digests.append(reading.digest())
    small_model.set_precision("fp32")
    assert replace(reading, sequences=list(TEXTS)).digest() == digests[0]
    with torch.no_grad():
        small_model.embedding.weight[7, 0] += 1
    digests.append(reading.digest())
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("largest_file", [100], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_nothing_stays_where_no_file_may_be_so_large(tmp_path, reading):
    with pytest.raises(OSError, match=r"File too large: '.*x\.npy'"):
        write(tmp_path / "x.npy", reading)
    assert not list(contents(tmp_path))


@pytest.fixture
def folder(tmp_path, small_model):
    save_model(tmp_path / "model", small_model, text_profile("openai"), {})
    (tmp_path / "texts.txt").write_text("one\ntwo words\nthree words more\n")
    return tmp_path


def words(folder, *more, file="texts.txt"):
    options = ("--model", folder / "model", "--input", folder / file, *more)
    return ["featurize", *map(str, options)]


def computed(folder, name, *more, file="texts.txt"):
    dispatch(words(folder, "--output", folder / name, *more, file=file))
    return np.load(folder / name)


def test_shards_have_the_rows_of_the_whole_between_them(folder):
    lines = [f"text number {i} " * (1 + i % 5) for i in range(11)]
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in lines))
    whole = computed(folder, "whole.npy")
    for number in (1, 2, 3):
        part = computed(folder, f"{number}.npy", "--shard", f"{number}/3")
        np.testing.assert_array_equal(part, whole[number - 1 :: 3])
    with pytest.raises(InputError, match="--shard 12/20: the input has only 11 rows"):
        computed(folder, "12.npy", "--shard", "12/20")


@pytest.fixture
def little_memory(folder, monkeypatch):
    """A limit of about three texts at a time."""
    lines = [f"text number {i} " * (1 + i % 5) for i in range(20)]
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in [*lines, "", " "]))
    whole = computed(folder, "whole.npy")
    monkeypatch.setattr(featurize, "_IN_MEMORY", 3 * featurize._OF_A_TEXT)
    monkeypatch.setattr(rows, "_FIRST_ROWS", 2)
    return whole


def test_more_texts_than_fit_into_memory_have_the_same_features(folder, little_memory, capsys):
    features = computed(folder, "x.npy")
    np.testing.assert_array_equal(features, little_memory)
    assert "22 texts, 12 features; 2 of them are empty or missing\n" in capsys.readouterr().out
    part = computed(folder, "part.npy", "--shard", "2/2")
    np.testing.assert_array_equal(part, little_memory[1::2])


@pytest.mark.usefixtures("little_memory")
def test_a_large_table_is_described_once(folder, caplog):
    caplog.set_level("INFO")
    (folder / "texts.csv").write_text("comment\n" + "so good\n" * 20)
    computed(folder, "x.npy", file="texts.csv")
    assert caplog.text.count("text column 'comment'") == 1


def test_texts_that_change_while_they_are_read_are_refused(folder, monkeypatch):
    parts = featurize._parts

    def changed(rows):
        (folder / "texts.txt").write_text("one\n")  # the number of rows is known
        return parts(rows)

    monkeypatch.setattr(featurize, "_parts", changed)
    with pytest.raises(InputError, match="has changed while it was read"):
        computed(folder, "x.npy")
    assert not (folder / "x.npy").exists()


def test_memory_does_not_grow_with_the_file(folder, monkeypatch):
    monkeypatch.setattr(featurize, "_IN_MEMORY", 1 << 16)
    monkeypatch.setattr(rows, "_BATCH_ROWS", 64)
    (folder / "texts.txt").write_text("a review of a lamp\n" * 10_000)  # 0.8 MB in memory
    tracemalloc.start()
    try:
        read = rows.Rows(Source(folder / "texts.txt"))
        assert sum(map(len, featurize._parts(read))) == read.count == 10_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 19
    finally:
        tracemalloc.stop()
