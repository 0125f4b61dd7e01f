"""The benchmark of preparation: it runs what it says, and watches memory."""

import gzip
import json
import subprocess
import sys

from data_utils.synthetic import synthetic_reviews
from experiments.data import benchmark
from tests.runs import run


def write_reviews(path, count):
    rows = (json.dumps({"reviewText": r.text}) for r in synthetic_reviews(count, seed=1))
    path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    return path


def test_reviews_are_repeated_with_a_change_up_to_the_size(tmp_path):
    source = write_reviews(tmp_path / "a.jsonl.gz", 50)
    process = run(
        *("-m", "experiments.data.enlarge", source, "--bytes", "30000"),
        *("--output", tmp_path / "large.jsonl.gz"),
    )
    assert process.returncode == 0, process.stderr
    lines = gzip.decompress((tmp_path / "large.jsonl.gz").read_bytes()).splitlines()
    texts = [json.loads(line)["reviewText"] for line in lines]
    assert 30_000 <= sum(len(line) + 1 for line in lines) < 31_000
    assert texts[50] == f"1 {texts[0]}"
    assert len(set(texts)) == len(texts)


def test_every_contender_is_timed_and_compared(tmp_path):
    source = write_reviews(tmp_path / "a.jsonl.gz", 300)
    benchmark.compare(benchmark.Options(source, tmp_path / "out.json", rounds=1))
    result = json.loads((tmp_path / "out.json").read_text())
    assert len(result["seconds"]) == 8
    assert all(seconds[0] > 0 for seconds in result["seconds"].values())
    assert len(result["ratios"]) == 9
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_memory_that_a_child_takes_is_seen():
    child = "import time; x = bytearray(80 << 20); x[::4096] = x[::4096]; time.sleep(1)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", code])
    watch = benchmark.MemoryWatch(process.pid)
    process.wait()
    assert 80 << 20 <= watch.stop() < 200 << 20
