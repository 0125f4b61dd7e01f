"""Find the largest batch that fits: lanes per rank, and the learning rate that goes with it.

python scripts/largest_batch.py --config configs/cpu_512.toml --limit 16
"""

from dataclasses import dataclass
from pathlib import Path

import command

from model.bounds import Fraction, PositiveInt


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train a config's model on more and more lanes of random bytes, until memory runs out."""

    config: Path
    """A TOML file from configs/."""
    corpus: Path | None = None
    """A prepared corpus like the one to train on, for its vocabulary. Default: tokens are bytes, or
    as many as model.vocabulary_size."""
    headroom: Fraction = 0.1
    """Fraction of the memory to leave free."""
    ranks: PositiveInt = 1
    """Processes of the run: the published rule for the rate counts the lanes of all of them, or,
    with Adasum, of a group."""
    limit: int = 4096
    """Most lanes to try, 8 or above; on a CPU a step with many lanes takes long."""
    output: Path | None = None
    """JSON file for the result."""


def main() -> None:
    options = command.parse(Options, __doc__)

    from configs.toml_file import load_config
    from data_utils.corpus import open_corpus
    from data_utils.provenance import describe_origin
    from model.errors import InputError
    from scaling.batch_size import (
        FIRST,
        SearchedJob,
        available_bytes,
        describe,
        largest_batch,
        measured_peak,
        rate_groups,
    )
    from training.parallel.distributed import device_of_rank

    if options.limit < FIRST:
        raise InputError(f"--limit {options.limit}: it must be {FIRST} or above")
    command.prepare_output(options.output)
    run = load_config(options.config)
    groups = rate_groups(run.parallel, options.ranks)
    model = run.model
    if options.corpus is not None:
        model = model.for_vocabulary(open_corpus(options.corpus).tokenizer.vocabulary_size)
    job = SearchedJob(model, run.optim, run.train, run.parallel, run.data.window)

    def peak_of(lanes: int) -> int | None:
        peak = measured_peak(job, lanes)
        said = "too many" if peak is None else f"{peak / 1e9:.2f} GB"
        print(f"{lanes:>6} lanes: {said}", flush=True)
        return peak

    available = available_bytes(device_of_rank(run.train.device))
    fit = largest_batch(peak_of, available, options.headroom, options.limit)
    measured = {str(lanes): peak for lanes, peak in fit.measured.items()}
    result = describe(fit, run.optim, options.ranks, groups)
    command.report({**result, "measured": measured, "origin": describe_origin()}, options.output)


if __name__ == "__main__":
    command.run(main)
