"""The recipes of docs/cluster.md for data on many machines: in shards, and in an engine."""

import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from model import SentimentClassifier
from tests.house.pages import PAGES, commands_of
from tests.support.runs import ROOT, environment_of

PAGE = PAGES["docs/cluster.md"]
RECIPE = re.search(r"Save this as `labelling.py`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
JOIN = re.search(r"back in order:\n\n```text\n(.*?)```", PAGE, re.DOTALL)[1]
TEXTS = ["I love it.", "It broke at once.<br>", None, "", "The parcel came on a Tuesday.", 5.0]
SBATCH = """#!/usr/bin/env bash
# As Slurm does: the wrapped command once for every task of the array.
for SLURM_ARRAY_TASK_ID in 1 2; do
    export SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT=2
    bash -c "${@: -1}" || exit
done
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The module of the recipe, as a worker imports it."""
    code = RECIPE.replace("from mlstm_sentiment import", "from model import")
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


def test_the_recipe_runs_in_spark(recipe):
    sql = pytest.importorskip("pyspark.sql", reason="install pyspark")
    spark = sql.SparkSession.builder.master("local[1]").getOrCreate()
    frame = spark.createDataFrame([(0, "I love it."), (1, None)], "id long, text string")
    schema = re.search(r'"(id long, [^"]+)"', PAGE)[1]
    table = frame.mapInPandas(lambda batches: map(recipe.labelled, batches), schema).toPandas()
    assert list(table["id"]) == [0, 1]
    spark.stop()


def test_the_job_arrays_give_all_rows_and_the_page_puts_them_in_order(tmp_path):
    """With a stand-in for sbatch, the small model, few rows, and two tasks in place of eight."""
    ids = [f"{n:03}" for n in range(18)] + ["NA"]  # as they are, not as numbers
    pd.DataFrame({"id": ids, "text": [f"text number {n}" for n in range(19)]}).to_parquet(
        tmp_path / "reviews.parquet"
    )
    (tmp_path / "sbatch").write_text(SBATCH)
    (tmp_path / "mlstm-sentiment").write_text(
        f'#!/usr/bin/env bash\nexec {sys.executable} -m model "$@" --model default_small\n'
    )
    for name in ("sbatch", "mlstm-sentiment"):
        (tmp_path / name).chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for command in (c for c in commands_of(PAGE) if "--array" in c):
        subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment_of(places), check=True
        )
    join = JOIN.replace("range(1, 9)", "range(1, 3)").replace("8 * part", "2 * part")
    code = join.replace("i::8", "i::2") + f"\nassert list(labelled['id']) == {ids}\n"
    code += "np.save('joined', features)\n"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    whole = ["featurize", "--input", "reviews.parquet", "--output", "whole.npy"]
    subprocess.run(
        ["mlstm-sentiment", *whole], cwd=tmp_path, env=environment_of(places), check=True
    )
    joined, whole = np.load(tmp_path / "joined.npy"), np.load(tmp_path / "whole.npy")
    np.testing.assert_allclose(joined, whole, atol=1e-5)
