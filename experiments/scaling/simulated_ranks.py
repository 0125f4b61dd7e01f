"""Train as several ranks would, played one after the other by one process, by a clock of its own.

python -m experiments.scaling.simulated_ranks --study asynchronous --corpus PART --output F.json
python -m experiments.scaling.simulated_ranks --study adasum --corpus PART --output F.json

What the ranks learn is exact, and does not depend on how busy the machine is: it follows from the
order in which gradients are computed and applied, and that order is computed.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from configs import command
from data_utils.corpus import Corpus, open_corpus
from data_utils.lanes import Lanes
from data_utils.provenance import describe_origin
from model.files.storage import write_json
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from training.evaluation import evaluate_split
from training.objective import Objective
from training.optimizers.optim import BETAS
from training.optimizers.schedule import Schedule
from training.parallel.adasum import combined
from training.parallel.batch import as_batch
from training.parallel.distributed import World

CPU = torch.device("cpu")
CLIP = 1.0  # norm of a gradient
WARM_UP = 0.05  # of the updates, or of the time
EXCHANGE = 0.18  # seconds that a link needs for a gradient, per second of computing
JITTER = 0.1  # standard deviation of the logarithm of a rank's seconds
SLOW = 2.0  # a slow rank's seconds over the others'
RATES = (0.012, 0.024, 0.048, 0.096, 0.192)  # of Adam
SGD_RATES = (1.0, 2.0, 4.0, 8.0)
GROUPS = (4, 8)  # ranks whose steps or gradients are combined


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare two ways of combining the work of ranks."""

    study: Literal["asynchronous", "adasum"]
    """asynchronous: updates that wait for all ranks, and updates that wait for none, at equal time.
    adasum: the mean of gradients, and Adasum of the ranks' steps, under SGD with momentum."""
    corpus: Path
    """A prepared corpus of bytes."""
    output: Path
    """File of the results."""
    units: int = 64
    """H, units."""
    lanes: int = 16
    """Lanes of each rank."""
    window: int = 64
    """T, bytes of a lane in a window."""
    updates: int = 400
    """Windows that a rank alone reads in the time of a run (asynchronous)."""
    characters: float = 1e6
    """What a run reads (adasum)."""
    seeds: int = 3
    """Runs of each case."""


class Ranks:
    """A model, and the text and states of the ranks that train it."""

    def __init__(self, options: Options, corpus: Corpus, ranks: int, seed: int, at_once: int = 1):
        """Take the number of ranks; each reads the lanes of `at_once` ranks together."""
        self.model = build_model(ModelConfig(hidden_size=options.units), seed)
        self.objective = Objective(self.model)
        lanes = options.lanes * at_once
        self.lanes = [
            Lanes(
                corpus.splits["train"],
                lanes=ranks * lanes,
                window=options.window,
                seed=seed,
                own=slice(rank * lanes, (rank + 1) * lanes),
            )
            for rank in range(ranks)
        ]
        self.states = [self.model.initial_state(lanes) for _ in range(ranks)]
        self.windows = [0] * ranks

    @property
    def weights(self) -> Tensor:
        """A copy of the weights, [n]."""
        return parameters_to_vector(self.model.parameters()).detach().clone()

    @weights.setter
    def weights(self, vector: Tensor) -> None:
        vector_to_parameters(vector, self.model.parameters())

    def gradient(self, rank: int) -> Tensor:
        """Return the gradient [n] of a rank's next window at the weights."""
        batch = as_batch(self.lanes[rank][self.windows[rank]], CPU)
        self.windows[rank] += 1
        self.model.zero_grad(set_to_none=True)
        nats, state = self.objective(
            batch.inputs,
            batch.targets,
            self.states[rank].reset(batch.reset),
            gradient_scale=1 / batch.inputs.numel(),
        )
        nats.backward()
        self.states[rank] = state.detach()
        return parameters_to_vector([p.grad for p in self.model.parameters()])


def main() -> None:
    options = command.parse(Options, __doc__)
    corpus = open_corpus(options.corpus)
    runs = {"asynchronous": compare_updates, "adasum": compare_means}[options.study]
    results = []
    for run in runs(options, corpus):
        print(run, flush=True)
        results.append(run)
        settings = {**asdict(options), "corpus": options.corpus.name, "output": options.output.name}
        result = {"runs": results, "config": settings, "origin": describe_origin()}
        write_json(options.output, result)


def bits(ranks: Ranks, corpus: Corpus) -> float:
    """Return bits per character on valid; infinity if the training has diverged."""
    if not ranks.weights.isfinite().all():
        return math.inf
    ranks.model.eval()
    return evaluate_split(
        ranks.model, corpus.splits["valid"], lanes=128, world=World(0, 1, CPU), reset="strip"
    )[0]


# Updates that wait for all ranks, or for none


def compare_updates(options: Options, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield every run: first the search for each way's rate with seed 0, then all seeds."""
    ways = [(1, "synchronous"), *((n, how) for n in (2, 4) for how in ("synchronous", "none"))]
    for ranks, how in ways:
        found = {}
        for rate in RATES:
            run = run_by_time(options, corpus, ranks, how, rate, seed=0, slow=1.0)
            found[rate] = run["valid_bits_per_character"]
            yield run
        best = min(found, key=found.__getitem__)
        cases = [(seed, 1.0) for seed in range(1, options.seeds)]
        cases += [(seed, SLOW) for seed in range(options.seeds)] if ranks > 1 else []
        for seed, slow in cases:
            yield run_by_time(options, corpus, ranks, how, best, seed, slow)


def run_by_time(
    options: Options, corpus: Corpus, ranks: int, how: str, rate: float, seed: int, slow: float
) -> dict[str, Any]:
    """Train for the time in which a rank alone computes `options.updates` windows.

    how: "synchronous", or "none" of the ranks waits. slow: the last rank's seconds over another's.
    """
    played = Ranks(options, corpus, ranks, seed)
    clock = Clock(ranks, seed, slow)
    optimizer = torch.optim.Adam(played.model.parameters(), betas=BETAS, lr=rate)
    schedule = Schedule(peak=rate, steps=options.updates, warmup=WARM_UP)
    wait = synchronous if how == "synchronous" else asynchronous
    stale = []
    for time, gradient, age in wait(played, clock):
        if time >= options.updates:
            break
        optimizer.param_groups[0]["lr"] = schedule.rate(int(time))
        set_gradient(played, clipped(gradient))
        optimizer.step()
        stale.append(age)
    return {
        "ranks": ranks,
        "waits_for": "all" if how == "synchronous" else "none",
        "slow": slow,
        "rate": rate,
        "seed": seed,
        "updates": len(stale),
        "mean_staleness": fmean(stale),
        "valid_bits_per_character": bits(played, corpus),
    }


class Clock:
    """The seconds that ranks need; computing a window takes a rank one second on average."""

    def __init__(self, ranks: int, seed: int, slow: float):
        self.random = np.random.default_rng([seed, ranks])
        self.means = np.ones(ranks)
        self.means[-1] = slow
        # A ring and parameter servers on all ranks' hosts send as many bytes over each link.
        self.exchange = EXCHANGE * 2 * (ranks - 1) / ranks

    def computing(self, rank: int) -> float:
        """Return the seconds of a rank's next window."""
        return self.means[rank] * float(np.exp(self.random.normal(-(JITTER**2) / 2, JITTER)))


def synchronous(ranks: Ranks, clock: Clock) -> Iterator[tuple[float, Tensor, int]]:
    """Yield (time, mean gradient, 0) of every update; each begins when the slowest has ended."""
    time = 0.0
    while True:
        time += max(map(clock.computing, range(len(ranks.windows)))) + clock.exchange
        gradients = [ranks.gradient(rank) for rank in range(len(ranks.windows))]
        yield time, torch.stack(gradients).mean(0), 0


def asynchronous(ranks: Ranks, clock: Clock) -> Iterator[tuple[float, Tensor, int]]:
    """Yield (time, gradient, age) in the order in which the ranks' gradients arrive.

    A gradient is of the weights that its rank fetched when it began; age: the updates since then.
    """
    arrivals = [(clock.computing(r) + clock.exchange, r) for r in range(len(ranks.windows))]
    heapq.heapify(arrivals)
    fetched = [(ranks.weights, 0) for _ in arrivals]
    update = 0
    while True:
        time, rank = heapq.heappop(arrivals)
        now = ranks.weights
        ranks.weights, begun = fetched[rank]
        gradient = ranks.gradient(rank)
        ranks.weights = now
        yield time, gradient, update - begun
        update += 1
        fetched[rank] = (ranks.weights, update)
        heapq.heappush(arrivals, (time + clock.computing(rank) + clock.exchange, rank))


def clipped(gradient: Tensor) -> Tensor:
    """Return a gradient [n] with a norm of at most CLIP."""
    return gradient * (CLIP / gradient.norm()).clamp(max=1.0)


def set_gradient(ranks: Ranks, gradient: Tensor) -> None:
    """Give the optimizer a gradient [n]."""
    parameters = list(ranks.model.parameters())
    parts = gradient.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)


# The mean of gradients, or Adasum of steps, under SGD with momentum


def compare_means(options: Options, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield every run: first the search for the rate of one rank with seed 0, then all seeds."""
    found = {}
    for rate in SGD_RATES:
        run = run_sgd(options, corpus, 1, "mean", rate, seed=0)
        found[rate] = run["valid_bits_per_character"]
        yield {**run, "rule": "search"}
    base = min(found, key=found.__getitem__)
    for seed in range(options.seeds):
        yield {**run_sgd(options, corpus, 1, "mean", base, seed), "rule": "base"}
        for ranks in GROUPS:
            rules = {"quarter": base / 4, "half": base / 2, "base": base}
            rules |= {"root": base * ranks**0.5, "linear": base * ranks}
            for rule, rate in rules.items():
                yield {**run_sgd(options, corpus, ranks, "mean", rate, seed), "rule": rule}
            yield {**run_sgd(options, corpus, ranks, "adasum", base, seed), "rule": "base"}


def run_sgd(
    options: Options, corpus: Corpus, ranks: int, combine: str, rate: float, seed: int
) -> dict[str, Any]:
    """Train on `options.characters`; the mean's ranks read their lanes together."""
    adasum = combine == "adasum"
    played = Ranks(options, corpus, ranks if adasum else 1, seed, 1 if adasum else ranks)
    of_an_update = ranks * options.lanes * options.window
    steps = round(options.characters / of_an_update)
    schedule = Schedule(peak=rate, steps=steps, warmup=WARM_UP)
    lengths = [p.numel() for p in played.model.parameters()]
    weights = played.weights
    momenta = [torch.zeros_like(weights) for _ in played.windows]
    for step in range(steps):
        for rank, momentum in enumerate(momenta):
            momentum.mul_(BETAS[0]).add_(clipped(played.gradient(rank)))
        step_of_all = combined(torch.stack(momenta) * -schedule.rate(step), lengths)
        weights = weights + step_of_all
        played.weights = weights.clone()
        if not weights.isfinite().all():
            break
    return {
        "ranks": ranks,
        "combine": combine,
        "rate": rate,
        "seed": seed,
        "updates": steps,
        "valid_bits_per_character": bits(played, corpus),
    }


if __name__ == "__main__":
    command.run(main)
