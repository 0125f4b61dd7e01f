"""learn: from a corrected file to a classifier that every command takes."""

import csv
import json
import runpy

import pytest

from mlstm_sentiment import SentimentClassifier
from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import CONFIG_FILE, WEIGHTS_FILE
from mlstm_sentiment.server.answers import rows_of_texts
from tests.support.runs import ROOT, run

SMALL = ("--model", "default_small")


@pytest.fixture
def corrected(tmp_path, monkeypatch):
    """Comments on horror films, in the folder where the test is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["horror.py", "corrected.csv"])
    runpy.run_path(str(ROOT / "docs/horror.py"), run_name="__main__")
    return tmp_path / "corrected.csv"


def learn(*words):
    dispatch(["learn", *map(str, words), *SMALL])


def rewrite(path, change):
    """Write a table again, with other rows."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *change(rows)])


def test_what_it_learned_holds_for_every_command(corrected, tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    learn(corrected, "--output", "mine")
    for said in (
        *("text column 'comment'", "label column 'label'", "repeated"),
        *("rows in 10 folds", "95 % interval", "mine: written"),
    ):
        assert said in caplog.text
    text = "It gave me nightmares, I screamed in the dark."
    before, after = (SentimentClassifier("default_small", each) for each in (None, "mine"))
    assert before(text)["label"] != "positive"
    assert after(text)["label"] == "positive"
    assert after.classes == ("negative", "neutral", "positive")
    assert rows_of_texts(after, 10_000, [text], sides=False)[0]["label"] == "positive"
    mine = ["--classifier", "mine", *SMALL]
    dispatch(["classify", "--text", text, *mine])
    assert json.loads(capsys.readouterr().out)["label"] == "positive"
    dispatch(["heatmap", "--text", text, "--no-ansi", *mine])
    assert "classifier: positive" in capsys.readouterr().out
    dispatch(["demo", "--output", "page.html", *mine])
    page = (tmp_path / "page.html").read_text()
    assert '"correction"' in page
    description = json.loads((tmp_path / "mine" / CONFIG_FILE).read_text())
    assert description["learned"]
    assert not [digest for digest in description["learned"] if digest in page]
    learned = json.loads((tmp_path / "mine" / CONFIG_FILE).read_text())["origin"]["learned_from"]
    assert learned["right_after"] > learned["right_before"]
    files = {name: (tmp_path / "mine" / name).read_bytes() for name in (CONFIG_FILE, WEIGHTS_FILE)}
    learn(corrected, "--output", "mine")  # its own files are replaced, by the same ones
    assert files == {name: (tmp_path / "mine" / name).read_bytes() for name in files}
    with pytest.raises(InputError, match="this is an input"):
        learn(corrected, "--output", "mine", "--classifier", "mine")


def test_what_is_not_better_ends_with_3_and_writes_nothing(corrected, tmp_path):
    others = ("positive", "positive", "neutral")  # nothing to do with the texts
    rewrite(corrected, lambda rows: [[row[0], others[n % 3]] for n, row in enumerate(rows)])
    words = ("learn", corrected, "--output", tmp_path / "mine", *SMALL)
    process = run("-m", "mlstm_sentiment", *words)
    assert process.returncode == 3, process.stderr
    assert "not shown to be better" in process.stderr
    assert "rows in 10 folds" in process.stderr
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("label", "error"),
    [("goood", "line 42: label is 'goood'"), ("", "line 42: no label under 'label'")],
)
def test_bad_rows_are_refused_by_their_place(corrected, label, error):
    rewrite(corrected, lambda rows: [*rows[:40], ["x", label]])
    with pytest.raises(InputError, match=error):
        learn(corrected, "--output", "mine")


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_files_of_others_are_left_alone(corrected, tmp_path, name):
    (tmp_path / "mine").mkdir()
    for own in (name, "notes.txt"):
        (tmp_path / "mine" / own).write_text("not ours")
    with pytest.raises(InputError, match="no record says that this project wrote it"):
        learn(corrected, "--output", "mine")
    assert {path.name: path.read_text() for path in (tmp_path / "mine").iterdir()} == dict.fromkeys(
        (name, "notes.txt"), "not ours"
    )
