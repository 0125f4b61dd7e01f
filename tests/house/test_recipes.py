"""The recipes of docs/cluster.md for data on many machines: in shards, and in an engine."""

import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mlstm_sentiment import SentimentClassifier
from tests.house.pages import PAGES, commands_of
from tests.support.runs import ROOT, done, environment_of

PAGE = PAGES["docs/cluster.md"]
(JOINING,) = (
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "of-8" in block
)
RECIPE = re.search(r"Save this as `labelling.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
TEXTS = ["I love it.", "It broke at once.<br>", None, "", "The parcel came on a Tuesday.", 5.0]
SBATCH = """#!/usr/bin/env bash
# As Slurm does: the wrapped command once for every task of the array.
for SLURM_ARRAY_TASK_ID in $TASKS; do
    export SLURM_ARRAY_TASK_ID
    bash -c "${@: -1}" || exit
done
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The module of the recipe, as a worker imports it."""
    code = RECIPE
    (tmp_path / "labelling.py").write_text(code.replace('"default"', '"default_small"'))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "labelling", raising=False)
    import labelling

    yield labelling
    del sys.modules["labelling"]


def frames():
    whole = pd.DataFrame({"id": range(len(TEXTS)), "text": pd.Series(TEXTS, dtype=object)})
    return [whole[:2], whole[2:2], whole[2:]]


def test_the_recipe_for_engines_answers_as_the_classifier_does(recipe):
    table = pd.concat(map(recipe.labelled, iter(frames())))  # as in mapInPandas
    classifier = SentimentClassifier.from_pretrained("default_small")
    answers = classifier(TEXTS).to_frame()
    expected = answers["probability"].astype(float)
    np.testing.assert_allclose(table["probability"], expected, atol=1e-6)
    assert list(table["unsure"].astype(object).fillna("")) == list(answers["unsure"].fillna(""))
    assert list(table["unsure"].isna()) == [text in (None, "") for text in TEXTS]
    assert list(table) == ["id", "text", "probability", "unsure"]
    assert list(table["id"]) == list(range(len(TEXTS)))


def test_a_part_without_rows_has_the_same_columns(recipe):
    none, some = recipe.labelled(frames()[1]), recipe.labelled(frames()[0])
    assert dict(none.dtypes) == dict(some.dtypes)


def test_the_recipe_is_sent_to_workers_by_its_name_and_loads_the_model_once(recipe):
    assert pickle.loads(pickle.dumps(recipe.labelled)) is recipe.labelled
    assert recipe.classifier() is recipe.classifier()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # Slurm waits for nodes that are lost
@pytest.mark.parametrize("tool", ["slurm", "spark", "dask", "ray"])
def test_the_pages_recipes_run_in_the_real_tools(tool):
    """Where it can be installed."""
    checked = subprocess.run(
        ["bash", ROOT / "scripts/check_cluster.sh", tool],
        env=environment_of({"PYTHON": sys.executable}),
        capture_output=True,
        text=True,
    )
    if f"{tool}: not run" in checked.stdout:
        pytest.skip(checked.stdout)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_job_arrays_give_all_rows_and_the_page_puts_them_in_order(tmp_path):
    """With a stand-in for sbatch, the small model, few rows, and two tasks in place of eight."""
    ids = [f"{n:03}" for n in range(18)] + ["NA"]  # as they are, not as numbers
    pd.DataFrame({"id": ids, "text": [f"text number {n}" for n in range(19)]}).to_parquet(
        tmp_path / "reviews.parquet"
    )
    (tmp_path / "sbatch").write_text(SBATCH)
    (tmp_path / "mlstm-sentiment").write_text(
        "#!/usr/bin/env bash\n"
        f'exec {sys.executable} -m mlstm_sentiment "$@" --model default_small\n'
    )
    for name in ("sbatch", "mlstm-sentiment"):
        (tmp_path / name).chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def run(command, tasks):
        environment = environment_of({**places, "TASKS": tasks})
        words = ["bash", "-c", command.replace("-of-8", "-of-2").replace("ID/8", "ID/2")]
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)

    commands = list(commands_of(PAGE))
    arrays = [command for command in commands if "--array" in command]
    assert len(arrays) == 2
    for command in arrays:
        done(run(command, "1"))
    for command in arrays:  # as after a failure: only the task that is missing
        done(run(command, "2"))
    assert "labelled-1-of-2.csv is one of 2" in run(arrays[0].replace("8", "3"), "3").stderr
    code = JOINING.replace("-of-8", "-of-2").replace("(1, 9)", "(1, 3)")
    code = code.replace("* 8", "* 2").replace("::8", "::2")
    words = [sys.executable, "-c", code]
    done(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True))
    whole = "--input reviews.parquet --output whole"
    done(run(f"mlstm-sentiment classify {whole}.csv && mlstm-sentiment featurize {whole}.npy", ""))
    assert (tmp_path / "labelled.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    joined, whole = np.load(tmp_path / "features.npy"), np.load(tmp_path / "whole.npy")
    np.testing.assert_allclose(joined, whole, atol=1e-5)
