"""The library needs neither torch nor what reads tables, unless it is asked for what needs them."""

import subprocess
import sys

import pytest

from tests.support.runs import ROOT

HEAVY = (
    *("torch", "sklearn", "scipy", "pandas", "pyarrow", "openpyxl", "matplotlib"),
    *("sentencepiece", "huggingface_hub", "anyascii"),
)
WITHOUT = (
    f"import sys; sys.modules |= dict.fromkeys({HEAVY!r}); ROOT = {str(ROOT)!r}\n"
    "sys.path.insert(0, ROOT)\n"
)
COMMANDS = [
    "classify --text good",
    "classify --input texts.csv --output out.csv --report page.html --bits --neuron",
    "classify --input texts.jsonl --output out.jsonl",
    "classify --input texts.json --output json.jsonl",
    "classify --input texts.txt --output txt.csv --precision fast --threads 2",
    "report texts.csv --output report.html",
    "featurize --input texts.csv --output features.npy --preset pooled",
    "evaluate --data texts.txt --output score.json",
    "generate --prompt I --length 5 --sentiment 1",
    "heatmap --text good --output heat.html",
    "demo --output demo.html",
    "models",
]
TEXTS = ("I love it, it works perfectly.", "It broke after two days.")
PYTHON = """
import pickle
from mlstm_sentiment import *
classifier = SentimentClassifier.from_pretrained("default_small", bits=True)
answers = classifier(["so good", "", "so bad"])
assert [answer["label"] for answer in answers] == ["positive", "no answer", "negative"], answers
assert pickle.loads(pickle.dumps(classifier))(["so good"])[0] == answers[0]
features = SentimentFeaturizer("amazon_1024").fit().transform(["so good"])
assert features.shape == (1, 1024)
head = SentimentClassifier("amazon_1024").fitted
save_head("head", head)
assert SentimentClassifier("amazon_1024", "head")("so good")["label"] == "positive"
assert continue_text("default_small", "I", SamplingConfig(length=3))
assert Engine.load(f"{ROOT}/tests/fixtures/v1/run")
SentimentClassifier.from_pretrained(f"{ROOT}/tests/fixtures/v1/finetuned").predict(["so good"])
import data_utils.labelled
from mlstm_sentiment.reading.source import _arriving_records
assert list(next(_arriving_records(iter([[b"{}"]])))) == [{}]
"""


@pytest.fixture
def folder(tmp_path):
    rows = [f'{{"text": "{text}"}}' for text in TEXTS]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    (tmp_path / "texts.json").write_text(f"[{','.join(rows)}]")
    (tmp_path / "texts.csv").write_text("\n".join(["text", *(f'"{text}"' for text in TEXTS)]))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return tmp_path


def test_everything_runs_where_only_the_library_is_installed(folder):
    words = [c.split() + ["--model", "default_small"] * (c != "models") for c in COMMANDS]
    calls = "\n".join(f"dispatch({each!r})" for each in words)
    code = f"{WITHOUT}from mlstm_sentiment.commands.command_line import dispatch\n{calls}\n{PYTHON}"
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert process.returncode == 0, process.stderr
