"""Seeds in a row, one for each draw."""

from model.errors import InputError

SEEDS = 2**32  # scikit-learn's and NumPy's random_state takes 0 to 2^32 - 1


def check_seeds(seed: int, draws: int) -> None:
    """Refuse a seed where it, or one of the `draws` that begin with it, is out of bounds."""
    if not 0 <= seed < SEEDS:
        raise InputError(f"--seed {seed}: it must be between 0 and 2^32")
    if seed + draws > SEEDS:
        raise InputError(
            f"--seed {seed}: with {draws} draws, each of the next seed, it must be "
            f"{SEEDS - draws} or below"
        )
