"""A corpus of a vocabulary's tokens through every command: prepared, trained on, used, refused."""

import json
import signal

import pytest

from data_utils.synthetic import synthetic_reviews
from tests.support.runs import assert_refused, done, rows_of, run, small_run, start, wait_for

STEPS = 12
V1 = "tests/fixtures/v1"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A corpus of 512 tokens, a run on it, and texts."""
    folder = tmp_path_factory.mktemp("work")
    rows = [json.dumps(review._asdict()) for review in synthetic_reviews(400, seed=6)]
    (folder / "in.jsonl").write_text("\n".join(rows))
    (folder / "texts.jsonl").write_text("\n".join(rows[:20]))
    prepared = run(
        *("scripts/prepare_corpus.py", folder / "in.jsonl", "--output", folder / "corpus"),
        *("--split", "6,1,1", "--tokenizer", "bpe", "--vocabulary-size", 512, "--workers", 1),
    )
    done(prepared)
    assert "tokens" in prepared.stdout
    assert "trainer_interface" not in prepared.stderr  # what the trainer says is not for people
    done(run(*run_on(folder, folder / "run")))
    return folder


def run_on(work, run_dir, **changes):
    return small_run(run_dir, STEPS, **{"data.corpus": work / "corpus", **changes})


def sizes(work):
    return json.loads((work / "corpus" / "meta.json").read_text())["splits"]


def test_evaluate_counts_the_bytes_of_text(work, run_here):
    results = []
    for data in ("corpus", "texts.jsonl"):
        output = work / f"{data}.json"
        words = ("--model", work / "run", "--data", work / data, "--output", output)
        done(run_here("scripts/evaluate.py", *words))
        results.append(json.loads(output.read_text()))
    assert results[0]["characters"] == sizes(work)["test"]["bytes"] > sizes(work)["test"]["tokens"]
    texts = [json.loads(line)["text"] for line in (work / "texts.jsonl").read_text().splitlines()]
    assert results[1]["characters"] == sum(len(text.encode()) + 3 for text in texts)  # the frame
    assert all(0 < each["bits_per_character"] < 8 for each in results)


def test_a_killed_run_resumes_exactly(work, tmp_path):
    process = start(*run_on(work, tmp_path / "cut", **{"checkpoint.every_steps": 1}))
    wait_for(tmp_path / "cut" / "metrics.jsonl", lambda text: text.count("\n") >= 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    done(run("main.py", "--resume", tmp_path / "cut"))
    assert rows_of(tmp_path / "cut") == rows_of(work / "run")


def test_other_tokenizers_are_refused(work, run_here):
    evaluate = ("scripts/evaluate.py", "--model")
    process = run_here(*evaluate, work / "run", "--data", f"{V1}/corpus")
    assert_refused(process, "its tokenizer is bytes", "the model's is bpe of 512", "--tokenizer")
    process = run_here(*evaluate, f"{V1}/run", "--data", work / "corpus")
    assert_refused(process, "its tokenizer is bpe of 512", "the model's is bytes")


def test_a_run_resumed_on_a_corpus_of_other_tokens_asks_for_its_own(work, run_here):
    process = run_here("main.py", "--resume", work / "run", "--data.corpus", f"{V1}/corpus")
    assert_refused(
        process, "training.json: was trained on another corpus", "name that one with --data.corpus"
    )
