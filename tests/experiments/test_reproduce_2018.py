"""One command repeats 2018: it goes on after any interruption, and ends with a page and a score."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from experiments.published_sets import SETS
from experiments.reproduction import page
from experiments.reproduction.page import BITS, UNIFORM, Compared, compared, score
from experiments.results import read_result
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from tests.support.runs import ROOT, assert_refused, done

SCRIPT = ROOT / "scripts/reproduce_2018.sh"
# In place of the interpreter: notes each command, leaves what the script looks for, and ends with 1
# at the command whose number is in $FAIL.
STAND_IN = """#!/usr/bin/env bash
echo "$*" >> "$LOG"
mkdir -p "$OUT"
[ "$(wc -l < "$LOG")" != "${FAIL:-}" ] || exit 1
case "$*" in
    scripts/synth*) mkdir -p "$OUT/generated/sst" ;;
    scripts/neuron.py*) mkdir -p "$OUT/neuron/figures"; touch "$OUT/neuron/figures/by_labels.png" ;;
esac
"""


@pytest.fixture
def repeat(tmp_path):
    """Run the script with the stand-in; return its exit code and the commands it ran."""
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    output, log = tmp_path / "output", tmp_path / "log"

    tools = tmp_path / "bin"  # without Slurm, where a machine has it
    tools.mkdir()
    for name in ("bash", "env", "dirname", "realpath", "wc", "mkdir", "touch"):
        (tools / name).symlink_to(shutil.which(name))

    def call(*words, fail=""):
        log.write_text("")
        environment = {"PYTHON": str(python), "LOG": str(log), "OUT": str(output), "FAIL": fail}
        environment["PATH"] = str(tools)
        process = subprocess.run(
            ["bash", SCRIPT, "--output", output, *words],
            env={**os.environ, **environment}, capture_output=True, text=True,
        )  # fmt: skip
        return process, log.read_text().splitlines()

    return call


def test_it_goes_on_after_a_failure_at_any_step(repeat, tmp_path):
    _, whole = repeat()
    assert whole[-1].startswith("-m experiments.reproduction.page")
    for step in range(1, len(whole) + 1):
        shutil.rmtree(tmp_path / "output")
        process, ran = repeat(fail=str(step))
        assert (process.returncode, len(ran)) == (1, step)
        process, ran = repeat()
        assert process.returncode == 0
        assert ran[-1] == whole[-1]


def test_the_files_of_a_folder_are_used_as_far_as_they_are_there(repeat, tmp_path):
    data = tmp_path / "data"
    for name in ("sst", "imdb", "cr"):
        (data / name).mkdir(parents=True)
    _, ran = repeat("--data", data)
    assert "main.py --config configs/tour.toml" in ran[0]
    assert "--tasks sst cr" in " ".join(ran)
    (data / "reviews.jsonl").touch()
    process, ran = repeat("--data", data, "--budget", "day")
    assert f"prepare_corpus.py {data}/reviews.jsonl" in ran[0]
    assert "--tasks sst cr imdb" in " ".join(ran)
    assert process.returncode == 0


def test_papers_prints_the_cost_and_trains_where_there_is_slurm(repeat, tmp_path):
    process, ran = repeat("--budget", "papers")
    assert process.returncode == 0
    assert all(line.startswith("scripts/plan.py") for line in ran)
    assert "cluster" in process.stdout
    sbatch = tmp_path / "bin/sbatch"
    sbatch.write_text(
        '#!/usr/bin/env bash\necho "sbatch $*" >> "$LOG"\nmkdir -p "$OUT/run/model"\n'
    )
    sbatch.chmod(0o755)
    data = tmp_path / "data"
    (data / "sst").mkdir(parents=True)
    (data / "reviews.jsonl").touch()
    for submitted in (1, 0):  # the second time, somewhere else
        process, ran = repeat("--budget", "papers", "--data", data)
        assert sum(line.startswith("sbatch --wait") for line in ran) == submitted
        assert ran[-1].startswith("-m experiments.reproduction.page")
        sbatch.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--budget", "hours"), "minutes, day or papers"),
        (("--data",), "--data"),
        (("--data", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_a_wrong_option_is_one_line(repeat, words, named):
    process, ran = repeat(*words)
    assert ran == []
    assert process.stderr.count("\n") == 1
    assert_refused(process, named)


@pytest.mark.parametrize(
    ("published", "ours", "untrained", "close"),
    [
        (0.8, 0.65, 0.5, 0.5),
        (0.8, 0.9, 0.5, 1),
        (0.8, 0.4, 0.5, 0),
        (1.34, 1.34, UNIFORM, 1),
        (1.0, 4.5, UNIFORM, 0.5),
    ],
)
def test_a_row_is_between_the_untrained_model_and_the_published_one(
    published, ours, untrained, close
):
    assert Compared("", published, 1024, ours, untrained).close == pytest.approx(close)


@pytest.mark.parametrize(("units", "size"), [(128, 1024), (1024, 1024), (3000, 4096)])
def test_published_models_of_the_nearest_size_score_1_and_untrained_ones_0(units, size):
    def result(name, value):
        rows = {
            row.name: next(
                p.value
                for p in SETS[name].published
                if (p.row, p.units, p.source) == (row.name, size, "puri")
            )
            for row in SETS[name].rows
        }
        nothing = {"test_accuracy": 0.5}
        accuracies = {row: {"test_accuracy": value or of} for row, of in rows.items()}
        return {**accuracies, "majority": nothing}

    rows = compared({n: result(n, None) for n in ("sst", "imdb")}, BITS[size], units)
    assert {row.units for row in rows} == {size}
    assert len(rows) == 5
    assert score(rows) == pytest.approx(1)
    assert score(compared({"sst": result("sst", 0.5)}, UNIFORM, units)) == 0


@pytest.mark.parametrize("generated", [True, False])
def test_the_page_says_what_was_read_and_what_is_missing(tmp_path, monkeypatch, capsys, generated):
    folder = tmp_path / "reproduction"
    for name in ("results/model", "corpus")[: 1 if generated else 2]:
        (folder / name).mkdir(parents=True)
    write_json(
        folder / "results/model/sst.json", read_result("reproduction", "amazon_1024/sst"), None
    )
    write_json(folder / "scaling.json", read_result("scaling", "published"), None)
    if not generated:
        sizes = {name: {"reviews": 7, "bytes": 4321} for name in ("train", "valid", "test")}
        write_json(
            folder / "corpus/meta.json", {"sources": ["/far/mine.jsonl"], "splits": sizes}, None
        )
    monkeypatch.setattr(sys, "argv", ["page", "--output", str(folder)])
    page.main()
    page.main()  # as when the command is repeated
    text, result = (folder / "page.md").read_text(), read_json(folder / "score.json")
    assert f"score {result['score']:.2f}" in capsys.readouterr().out
    assert 0 < result["score"] <= 1
    assert [row["what"] for row in result["rows"]][1:] == ["SST, all units", "SST, one unit"]
    assert "6,920 / 872 / 1,821" in text
    assert "download_data.py imdb" in text
    assert ("4,321 bytes, of `mine.jsonl`" in text) is not generated
    assert ("generated" in text) is generated


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_minutes_ends_with_a_page_after_a_kill(tmp_path):
    words = ["bash", SCRIPT, "--output", tmp_path / "output"]
    environment = {**os.environ, "PYTHON": sys.executable}
    with subprocess.Popen(words, env=environment, start_new_session=True) as first:
        while not list(tmp_path.glob("output/run/checkpoint/*")):
            assert first.poll() is None
            time.sleep(0.2)
        os.killpg(first.pid, signal.SIGKILL)
    process = done(subprocess.run(words, env=environment, capture_output=True, text=True))
    assert "from step" in process.stdout + process.stderr
    result = read_json(tmp_path / "output/score.json")
    rows = [row["what"] for row in result["rows"]]
    assert rows == ["bits per character", "SST, all units", "SST, one unit"]
    for name in ("ranking", "histogram", "by_units", "by_labels"):
        assert f"neuron/figures/{name}.png" in (tmp_path / "output/page.md").read_text()
        assert (tmp_path / f"output/neuron/figures/{name}.png").is_file()
    done(subprocess.run(words, env=environment, capture_output=True, text=True))
    assert read_json(tmp_path / "output/score.json")["rows"] == result["rows"]
