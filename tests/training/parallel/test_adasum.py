"""Adasum against a tree in float64, its limits, and ranks that train against one process."""

import json

import numpy as np
import pytest
import torch

from mlstm_sentiment.errors import InputError
from tests.ranks.combining import pairwise_tree
from tests.support.runs import assert_refused, run_ranks, small_run
from tests.support.trainers import make_trainer
from training.parallel.adasum import PIECE, AdasumExchange, combined
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig

CPU = torch.device("cpu")
EPS = torch.finfo(torch.float32).eps
LENGTHS = [5, 1, 40, 300]
MAGNITUDES = [1.0, 1e-20, 1e15, 1e-4]  # of the tensors; squares of the second are nothing to fp32


def vectors(groups, lengths=LENGTHS):
    """Return what the groups hold, float32 [groups, n], with something in common."""
    random = np.random.default_rng(0)
    common = random.standard_normal(sum(lengths))
    own = random.standard_normal((groups, sum(lengths)))
    scale = np.repeat(MAGNITUDES, lengths)
    return torch.from_numpy((common + own) * scale).float()


def tensors(vector):
    return list(vector.split(LENGTHS))


LONG = [5, PIECE + 9, 40, 300]  # combined piece by piece


@pytest.mark.parametrize(("groups", "lengths"), [*((n, LENGTHS) for n in (1, 2, 4, 8)), (4, LONG)])
def test_it_is_the_tree_of_pairs_in_float64(groups, lengths):
    gradients = vectors(groups, lengths)
    expected = pairwise_tree([vector.split(lengths) for vector in gradients])
    parts = combined(gradients, lengths).split(lengths)
    for actual, tensor in zip(parts, expected, strict=True):
        # one rounding to fp32 a level, none of them above the sum of the norms
        limit = groups.bit_length() * EPS * sum(np.linalg.norm(tensor) for _ in range(2))
        assert np.abs(actual.double().numpy() - tensor).max() <= limit


def test_equal_parallel_and_tiny_vectors():
    vector = vectors(1)[0]
    # coefficients of one half exactly: |a|^2 is a.b
    assert torch.equal(combined(vector.repeat(8, 1), LENGTHS), vector)
    scaled = torch.outer(torch.tensor([1.0, 2.0, 3.0, 4.0]), vector)
    torch.testing.assert_close(combined(scaled, LENGTHS), 2.5 * vector, rtol=4 * EPS, atol=0)
    tiny = torch.full((2, 1), 1e-78, dtype=torch.float64)  # squared, below sqrt(2.2e-308)
    assert torch.equal(combined(tiny, [1]), tiny.sum(0))
    larger = torch.full((2, 1), 1e-76, dtype=torch.float64)
    assert torch.equal(combined(larger, [1]), larger[0])


@pytest.mark.parametrize("ranks", [3, 6, 12])
def test_ranks_that_make_no_pairs_are_refused(ranks):
    with pytest.raises(InputError, match=rf"parallel\.combine adasum .* processes, not {ranks}$"):
        AdasumExchange([], World(0, ranks, CPU))


@pytest.mark.parametrize(
    ("key", "value"), [("compression", "fp16"), ("compression", "bf16"), ("flat", True)]
)
def test_what_does_not_go_together_is_refused_by_both_names(key, value):
    both = rf"^parallel\.combine adasum and parallel\.{key} {value} do not work together"
    with pytest.raises(InputError, match=both):
        ParallelConfig(combine="adasum", **{key: value})


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def ranks(request, tmp_path_factory):
    """The number of ranks that train with Adasum, and their results by way of training."""
    folder = tmp_path_factory.mktemp("ranks")
    for process in run_ranks(request.param, "-m", "tests.ranks.combining", folder):
        assert process.returncode == 0, process.stderr
    return request.param, json.loads((folder / "results.json").read_text())


def test_ranks_train_what_the_tree_over_one_process_per_rank_trains(ranks):
    results = ranks[1]
    for way, result in results["trained"].items():
        assert result["same"], way
        # Weights of up to 4 in fp32 that moved by 0.03 and more; Adam divides by small gradients,
        # which are sums in another order where lanes are split otherwise.
        assert result["difference"] <= 5e-5, (way, result)
        assert result["from_mean"] > 0.1, way
    assert len(results["trained"]) == 8


def test_what_adasum_sends(ranks):
    count, results = ranks
    for way, result in results["trained"].items():
        vector = 4 * result["parameters"]
        expected = 2 * (count - 1) / count * vector
        # and dot products and padding: little
        assert expected <= result["sent_bytes"] <= 1.1 * expected, (way, result)


def test_a_rank_that_overflows_keeps_all_from_stepping(ranks):
    for way, result in ranks[1]["overflow"].items():
        expected = {"moved": False, "scale": 0.5, "moved_next": True, "finite": True}
        assert result == expected, way
    assert "muon, clipped" in ranks[1]["overflow"]


def test_the_state_of_every_rank_is_saved_and_resumes_exactly(ranks):
    count, results = ranks
    for way, result in results["resumed"].items():
        assert result["equal"], way
        assert result["files"] == count, way
        assert result["distinct"] == result["files"], way


def test_the_papers_rule_uses_the_lanes_of_one_rank():
    trainer = make_trainer(lanes=64, lr=None)
    exchange = AdasumExchange(trainer.model.parameters(), World(0, 4, CPU))
    assert exchange.lanes_averaged(64) == 16
    assert make_trainer(lanes=16, lr=None).schedule.rate(0) == trainer.schedule.rate(0) / 4


def test_main_refuses_another_number_of_ranks(tmp_path, run_here):
    folder = tmp_path / "run"
    keys = {"parallel.combine": "adasum", "evaluate.every_steps": 100}
    for process in run_ranks(2, *small_run(folder, 3, **keys)):
        assert process.returncode == 3, process.stderr  # three steps do not beat unigrams
    assert (
        '"optimizer_states": 2'
        in (folder / "checkpoint" / "step-00000003" / "training.json").read_text()
    )
    process = run_here("main.py", "--resume", folder, "--train.steps", "4")
    assert_refused(process, "its own optimiser state", "has 2, this run 1;", "start 2")
