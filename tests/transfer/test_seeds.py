"""Seeds that scikit-learn will refuse are refused before any work."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from model.errors import InputError
from tests.support.runs import assert_refused, run
from transfer.task import check_seeds


@pytest.mark.parametrize(("seed", "draws"), [(0, 1), (2**32 - 1, 1), (2**32 - 3, 3)])
def test_the_largest_seed_is_valid_for_a_regression(seed, draws):
    check_seeds(seed, draws)
    features, labels = np.array([[0.0], [1.0]]), [0, 1]
    last = LogisticRegression(solver="liblinear", random_state=seed + draws - 1)
    last.fit(features, labels)
    with pytest.raises(InputError, match=f"--seed {seed}: with {2**32 - seed + 1} draws"):
        check_seeds(seed, 2**32 - seed + 1)
    with pytest.raises(ValueError, match="random_state"):
        last.set_params(random_state=2**32).fit(features, labels)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_bounds_is_refused(seed):
    with pytest.raises(InputError, match=f"--seed {seed}: it must be between 0 and 2"):
        check_seeds(seed, 1)


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("neuron", ["--draws", "1", "--untrained", "2"], "with 2 draws"),
        ("neuron", ["--draws", "3", "--untrained", "1"], "with 3 draws"),
        ("transfer", ["--untrained", "2"], "with 2 draws"),
    ],
)
def test_commands_refuse_before_anything_is_read(script, options, words, tmp_path):
    """No model and no text is there to read; they would say so."""
    names = ("model", "train", "val", "test", "output")
    files = [word for name in names for word in (f"--{name}", tmp_path / name)]
    process = run(f"scripts/{script}.py", *files, "--seed", str(2**32 - 1), *options)
    assert_refused(process, "--seed 4294967295", words)
    assert not list(tmp_path.iterdir())
