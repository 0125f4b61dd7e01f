"""Seeds that scikit-learn will refuse are refused before any work."""

import pytest
from sklearn.linear_model import LogisticRegression

from mlstm_sentiment.errors import InputError
from tests.support.runs import assert_refused
from transfer.task import check_seeds


def test_the_last_draw_may_have_the_largest_seed():
    check_seeds(2**32 - 3, 3)
    LogisticRegression(random_state=2**32 - 1).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match=f"--seed {2**32 - 3}: with 4 draws"):
        check_seeds(2**32 - 3, 4)


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
def test_commands_refuse_before_anything_is_read(script, options, words, tmp_path, run_here):
    """There is no model and no text; reading them would be another error."""
    names = ("model", "train", "val", "test", "output")
    files = [word for name in names for word in (f"--{name}", tmp_path / name)]
    process = run_here(f"scripts/{script}.py", *files, "--seed", str(2**32 - 1), *options)
    assert_refused(process, "--seed 4294967295", words)
    assert not list(tmp_path.iterdir())
