"""How far the best unit stands out: two units that know the label, one better than the other."""

import numpy as np
import pytest

from experiments.neuron.standing_out import describe, draw, results_of, table
from model.files.storage import write_json
from transfer.regression import Examples

BEST, SECOND = 3, 1  # of eight units; of the mean state they change places
EXPECTED = {"last": [BEST, SECOND], "mean": [SECOND, BEST]}


def examples(count, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    features = random.normal(size=(count, 16)).astype(np.float32)
    for first, (strong, weak) in zip((0, 8), EXPECTED.values(), strict=True):
        features[:, first + strong] -= 3 * labels  # a unit may be high for negative texts
        features[:, first + weak] += labels
    return Examples(features, labels)


@pytest.fixture(scope="module")
def result():
    return describe({
        name: [examples(300, seed + part) for part in range(3)]
        for name, seed in (("sst", 0), ("cr", 10), ("imdb", 20))
    })  # fmt: skip


@pytest.mark.parametrize("pooling", EXPECTED)
def test_the_two_best_units_are_found_with_their_areas(result, pooling):
    for areas in result["areas"].values():
        best = areas[pooling]
        assert best["units"] == EXPECTED[pooling]
        assert best["areas"][0] > 0.95 > best["areas"][1] > 0.65
        assert best["difference"] == pytest.approx(best["areas"][0] - best["areas"][1])
        low, high = best["difference_interval"]
        assert 0 < low < best["difference"] < high
    assert result["all_units"][pooling] > 0.9


def test_results_of_all_seeds_are_in_table_and_figure(result, tmp_path):
    for seed, bits in enumerate((1.5, 1.7, 1.6)):
        write_json(tmp_path / f"base_seed_{seed}.json", {"bits": bits, **result})
    assert len(results_of("student", tmp_path)["base"]) == 3
    assert "| base | 1.600 (1.500 to 1.700) |" in table("student", "last", tmp_path)
    assert len(draw("student", tmp_path).axes) == 6
