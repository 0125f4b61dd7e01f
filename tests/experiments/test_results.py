"""One file of results a study: what commands write goes there, and is found there."""

import pytest

from experiments import results
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json

MACHINE = {"python": "3.12", "versions": {"torch": "2"}, "hardware": {"cores": 2, "gpus": []}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A study that has measured two results, and nothing else."""
    monkeypatch.setattr(results, "EXPERIMENTS", tmp_path)
    results._results_in.cache_clear()
    for name, revision in (("a", "1"), ("model/b", "2")):
        origin = {"git_revision": revision, **MACHINE}
        content = {"value": 1.5, "rows": [[1, 2], ["a  [b"]], "origin": origin}
        results.write_result("speed", name, content)
    yield tmp_path / "speed"
    results._results_in.cache_clear()


def test_new_results_are_moved_into_the_file_of_their_study(folder):
    before = {name: results.read_result("speed", name) for name in ("a", "model/b")}
    assert results.collect() == ["speed/a", "speed/model/b"]
    assert [path.name for path in folder.rglob("*.json")] == ["results.json"]
    assert {name: results.read_result("speed", name) for name in before} == before
    assert results.names("speed") == ["a", "model/b"]
    whole = read_json(folder / "results.json")
    assert whole["machines"] == [MACHINE]
    assert whole["results"]["model/b"]["origin"] == {"git_revision": "2", "machine": 0}
    assert results.collect() == []


def test_a_new_result_stands_for_the_old_one_and_then_replaces_it(folder):
    results.collect()
    path = folder / "results/a.json"
    write_json(path, {"value": 2.5}, "a result")
    assert results.result_at(path) == {"value": 2.5}
    results.collect()
    assert results.result_at(path) == results.find_result("speed", "a") == {"value": 2.5}
    assert results.read_result("speed", "model/b")["value"] == 1.5


def test_what_is_absent_is_none_or_not_measured(folder, tmp_path):
    assert results.find_result("speed", "c") is None
    assert results.find_result("tour", "c") is None
    assert results.result_at(tmp_path / "elsewhere/results/c.json") is None
    with pytest.raises(results.NotMeasured, match=r"speed/results\.json: has no result c"):
        results.read_result("speed", "c")
