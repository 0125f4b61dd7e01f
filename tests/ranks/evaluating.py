"""Two ranks that score one strip of text, for longer than a rank waits for a peer.

The second one has nothing to score. test_launch.py starts them.
"""

import time

from data_utils.corpus import embedded_corpus
from tests.support.trainers import make_trainer
from training import evaluation
from training.evaluation import evaluate_split
from training.parallel.distributed import launched

PATIENCE = 2.0  # seconds
SECONDS = 5.0  # of the evaluation
token_costs = evaluation.token_costs


def scored_slowly(model, sequences, *, batch_size, advance):
    """Score as `token_costs` does, and pause in between."""
    end = time.monotonic() + SECONDS
    for found in token_costs(model, sequences, batch_size=batch_size, advance=advance):
        while time.monotonic() < end:
            time.sleep(0.1)
            advance(0)
        yield found


if __name__ == "__main__":
    valid, model = embedded_corpus().splits["valid"], make_trainer().model
    with launched("cpu", timeout=PATIENCE) as world:
        evaluation.token_costs = scored_slowly
        bits, characters = evaluate_split(model, valid, lanes=1, world=world)
    print(f"rank {world.rank} scored {characters}: {bits:.6f}")
