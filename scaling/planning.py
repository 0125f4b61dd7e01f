"""A run on a cluster: the seconds of a step, and the hours and memory that follow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from configs.options import RunConfig
from data_utils.lanes import TextClock
from mlstm_sentiment.errors import InputError
from training.run_plan import RunPlan

from .hardware import ClusterConfig, NodePool
from .step_time import Synchronisation, step_time
from .workload import PRECISION_BYTES, MemoryModel, Workload

_HOUR = 3600.0
HEADROOM = 0.1  # fraction of a GPU's memory to leave free
_FORWARD = 2  # operations per weight and token of a forward pass
# Kernels of a byte in model/kernels/triton/window.py, each of which needs the one before: two
# products and two others, forward and backward.
LAUNCHES = 8
_GRADIENT_BYTES = {"none": 4.0, "fp16": 2.0, "bf16": 2.0}  # by parallel.compression
# The gates' gradients and the decoder's, measured in experiments/exchange on a CPU: ready from 0.64
# to 0.99 of backward, two thirds of the computing: 0.35 x 2/3 = f (1 - 1/5).
_OVERLAPPED = Synchronisation(chunks=5, overlap=0.29)
_FLAT = Synchronisation()


@dataclass(frozen=True)
class TextSize:
    """The amount of text that a run reads."""

    characters: float  # to train on
    characters_per_token: float = 1.0
    valid_tokens: float = 0.0  # scored in an evaluation


class Plan:
    """Predicts a run on the first GPUs of a cluster."""

    def __init__(self, cluster: ClusterConfig, run: RunConfig, gpus: int, text: TextSize):
        self.lanes = run.data.total_lanes(gpus)
        if self.lanes < gpus:
            raise InputError(f"data.lanes is {self.lanes}, fewer than {gpus} GPUs")
        if not isinstance(run.parallel.shares, str):
            raise InputError("parallel.shares has numbers; the planner knows even and measured")
        self.cluster, self.run, self.gpus, self.text = cluster, run, gpus, text
        self.pools = cluster.first_gpus(gpus)
        self.rounded_lanes = gpus * -(-self.lanes // gpus)  # if all had as many as the largest
        self.precision = "bf16" if run.train.precision == "auto" else run.train.precision
        self.how = _exchange_of(run)
        self.workload = Workload.of(run.model, run.optim.name, self.precision)
        self.memory = MemoryModel(
            model=run.model,
            window=run.data.window,
            precision=self.precision,
            lane_groups=run.parallel.lane_groups,
            gradient_bytes=self.how.bytes_per_parameter if gpus > 1 else 0.0,
        )
        computing = [self._computing_seconds(pool, self.lanes) for pool in self.pools]
        self.step = step_time(
            max(self._computing_seconds(pool, self.rounded_lanes) for pool in self.pools),
            self.workload.parameters,
            gpus,
            cluster.fabric(self.pools, self.how.bytes_per_parameter * self.workload.parameters),
            self.how,
            overhead=cluster.overhead_seconds,
        )
        rates = [self._rate(pool) * pool.gpus for pool in self.pools]
        ideal = sum(r * seconds for r, seconds in zip(rates, computing, strict=True)) / sum(rates)
        self.efficiency = ideal / self.step.seconds  # the fraction of all GPUs' speed that is used
        tokens = self.lanes * run.data.window
        self.characters_per_second = tokens * text.characters_per_token / self.step.seconds
        self.training_seconds = text.characters / self.characters_per_second
        self.clocked = self._by_the_clock()
        self.steps = self.clocked.last_step

    def _by_the_clock(self) -> RunPlan:
        """Return the run's steps and intervals, on a text of this size in windows that are full."""
        run, text, epochs = self.run, self.text, self.run.train.epochs or 1.0
        window = self.lanes * run.data.window * text.characters_per_token  # characters
        epoch = text.characters / epochs
        clock = TextClock(epoch / window, self.how.windows, epoch)
        train = replace(run.train, steps=None, epochs=epochs)
        optim = replace(run.optim, cooldown_from=None)  # the text is that of the whole run
        return replace(run, train=train, optim=optim).plan(clock)

    def fraction(self, pool: NodePool) -> float:
        """Return the fraction of all lanes that a GPU of a pool gets."""
        if self.run.parallel.shares == "even":
            return 1 / self.gpus
        return self._rate(pool) / sum(self._rate(p) * p.gpus for p in self.pools)

    def _rate(self, pool: NodePool, *, forward: bool = False) -> float:
        return pool.node.rate(self.run.model.hidden_size, self.precision, forward=forward)

    def _computing_seconds(self, pool: NodePool, total: int) -> float:
        """Return the seconds of a window on a GPU of a pool, of `total` lanes on all GPUs."""
        lanes = total * self.fraction(pool)
        window = self._seconds(pool, lanes, self.workload.operations_per_token)
        return window + pool.node.window_seconds + self.update_seconds(pool) / self.how.windows

    def update_seconds(self, pool: NodePool) -> float:
        """Return the seconds of a step's update on a GPU of a pool."""
        return self.workload.update_seconds(self._rate(pool), _memory_speed(pool))

    def _seconds(self, pool: NodePool, lanes: float, operations_per_token: float) -> float:
        """Return max(products, reading) + launches x latency, over a window of some lanes."""
        window, groups = self.run.data.window, self.run.parallel.lane_groups
        products = lanes * window * operations_per_token / self._rate(pool)
        launches = LAUNCHES * window * groups
        waiting = 2 * window * groups * self._waiting(pool, lanes / groups)
        return products + waiting + launches * pool.node.launch_seconds

    def _waiting(self, pool: NodePool, lanes: float) -> float:
        """Return the seconds by which reading the recurrent weights exceeds the products.

        This is for one token of each lane, forward or backward: each pass reads all these weights.
        """
        weights = self.workload.recurrent_weights
        products = _FORWARD * weights * lanes / self._rate(pool)
        reading = weights * PRECISION_BYTES[self.precision] / _memory_speed(pool)
        return max(reading - products, 0.0)

    @property
    def evaluation_seconds(self) -> float:
        """Seconds to score the valid split, forward only, on the slowest GPU."""
        total = self.run.evaluate.lanes
        lanes = math.ceil(total / self.gpus)
        pool = min(self.pools, key=self._rate)
        operations = _FORWARD * self.workload.product_weights * lanes
        launches = LAUNCHES / 2 * pool.node.launch_seconds
        seconds = (
            operations / self._rate(pool, forward=True) + self._waiting(pool, lanes) + launches
        )
        return self.text.valid_tokens / total * seconds

    @property
    def checkpoint_bytes(self) -> float:
        """Weights and Adam's moments in fp32, and h and c of every lane."""
        state = PRECISION_BYTES[self.precision] + 4.0
        return 12.0 * self.workload.parameters + self.lanes * self.run.model.hidden_size * state

    def answers(self) -> dict[str, Any]:
        plan = self.clocked
        evaluations, checkpoints = plan.count(plan.evaluate), plan.count(plan.checkpoint)
        saving = self.checkpoint_bytes / self.cluster.checkpoint_bytes_per_second
        pauses = evaluations * self.evaluation_seconds + checkpoints * saving
        hours = (self.training_seconds + pauses) / _HOUR
        prices = [pool.node.dollars_per_gpu_hour for pool in self.pools]
        paid = [price * p.gpus for price, p in zip(prices, self.pools, strict=True) if price]
        return {
            "cluster": self.cluster.name,
            "gpus": self.gpus,
            "hidden_size": self.run.model.hidden_size,
            "parameters": self.workload.parameters,
            "lanes": self.lanes,
            "step_seconds": self.step.seconds * self.how.windows,
            "window": {**vars(self.step), "seconds": self.step.seconds},
            "efficiency": self.efficiency,
            "characters_per_second": self.characters_per_second,
            "steps": self.steps,
            "training_hours": self.training_seconds / _HOUR,
            "evaluations": evaluations,
            "evaluation_seconds": self.evaluation_seconds,
            "checkpoints": checkpoints,
            "checkpoint_seconds": saving,
            "hours": hours,
            "gpu_hours": hours * self.gpus,
            "dollars": sum(paid) * hours if len(paid) == len(prices) else None,
            "groups": [self._pool_answers(pool) for pool in self.pools],
            "largest_lanes": int(
                min(self._largest_lanes(pool) / self.fraction(pool) for pool in self.pools)
            ),
        }

    def _pool_answers(self, pool: NodePool) -> dict[str, Any]:
        lanes = round(self.rounded_lanes * self.fraction(pool))
        needed, available = self.memory.needed(lanes), pool.node.memory_bytes
        return {
            "device": pool.node.device,
            "gpus": pool.gpus,
            "lanes_per_gpu": lanes,
            "memory_bytes": needed.total,
            "memory": vars(needed),
            "available_bytes": available,
            "fits": needed.total <= available * (1 - HEADROOM),
            "largest_lanes_per_gpu": self._largest_lanes(pool),
        }

    def _largest_lanes(self, pool: NodePool) -> int:
        return self.memory.largest_lanes(pool.node.memory_bytes, HEADROOM)

    def assumptions(self) -> Iterator[str]:
        """Yield the assumptions behind the numbers."""
        run, cluster = self.run, self.cluster
        for node in (pool.node for pool in self.pools):
            limit = node.memory_bytes_per_second
            memory = "any speed" if limit is None else f"{limit / 1e9:,.4g} GB/s"
            speed = f"{node.rate(run.model.hidden_size, self.precision) / 1e12:.4g} TFLOP/s"
            yield f"{node.device}: computes at {speed}, reads its memory at {memory}"
            if node.of_sheet:
                names = ", ".join(node.of_sheet)
                yield f"{node.device}: not measured, but by its data sheet or assumed: {names}"
            if node.launch_seconds or node.window_seconds:
                yield (
                    f"{node.device}: {LAUNCHES} kernels a byte, {1e6 * node.launch_seconds:.3g} "
                    f"microseconds each; {1e3 * node.window_seconds:.3g} ms for every window"
                )
        yield f"products in {self.precision} (train.precision {run.train.precision})"
        if self.gpus > 1:
            when = "in one piece after backward" if self.how.chunks == 1 else "during backward"
            often = "" if self.how.windows == 1 else f" of {self.how.windows} windows"
            bits = f"{8 * self.how.bytes_per_parameter:.0f} bits"
            yield f"gradients{often} in {bits}, sent {when}"
            yield f"overhead {cluster.overhead_seconds:g} s per window; no GPU lags behind its kind"
        yield (
            f"evaluations of {self.text.valid_tokens:,.0f} tokens, checkpoints at "
            f"{cluster.checkpoint_bytes_per_second / 1e9:g} GB/s"
        )
        yield f"memory for Adam; {HEADROOM:.0%} stays free"
        yield "no failures and no waiting for data"


def _memory_speed(pool: NodePool) -> float:
    return pool.node.memory_bytes_per_second or math.inf


def _exchange_of(run: RunConfig) -> Synchronisation:
    """Return how a run exchanges gradients; Adasum as one all-reduce after backward."""
    parallel = run.parallel
    return replace(
        _FLAT if parallel.flat or parallel.combine == "adasum" else _OVERLAPPED,
        bytes_per_parameter=_GRADIENT_BYTES[parallel.compression],
        windows=parallel.windows_per_step,
    )
