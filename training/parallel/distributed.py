"""The ranks of a run: the collectives that they use, and decisions that they make together."""

import errno
import gc
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Literal

import torch
import torch.distributed as dist

# Imported early: its functions take the current group as a default argument. DDP imports it once a
# group exists: the default would then hold it, and gloo's threads, until the interpreter exits.
import torch.distributed.nn
from torch import Tensor

from mlstm_sentiment.errors import InputError, TimeIsUp, TryAgain
from model.inference.tensors import model_digest
from model.layers.language_model import LanguageModel

from .launcher import HOW_TO_LAUNCH, MissingGpu

TrainingDevice = Literal["auto", "cpu", "cuda"]
# What srun and mpirun (Open MPI, MPICH) set to the number of copies that they start.
_COPIES = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun", "PMI_SIZE": "mpirun"}
_SECONDS_TO_ASK = 5.0  # between two questions of all ranks whether the time is up
_HYSTERESIS = 0.05  # lanes are divided again if that saves more than this fraction of a step

_LONGEST_NAME = 256  # bytes of an implementation's name
# Errors about a path that would occur again on another attempt, unlike a full disk.
_PERMANENT = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM, errno.EROFS),
)

log = logging.getLogger(__name__)


def never() -> bool:
    """Return False: the time is not up."""
    return False


@dataclass(frozen=True)
class World:
    """This process among its peers; a single process is a world of one."""

    rank: int
    size: int
    device: torch.device
    shares: tuple[float, ...] = ()  # of each rank in the lanes; (): all have the same
    timeout: timedelta = timedelta(minutes=5)  # of every collective: no hang if a peer is lost

    def __post_init__(self) -> None:
        if self.shares and len(self.shares) != self.size:
            raise InputError(
                f"parallel.shares has {len(self.shares)} numbers for {self.size} processes; give "
                "one for each"
            )

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def own_slice(self, items: int) -> slice:
        return self.slice_of(self.rank, items)

    def slice_of(self, rank: int, items: int) -> slice:
        """Return a rank's contiguous slice of `items`, such as lanes."""
        ends = [0, *accumulate(apportion(items, self.shares or (1.0,) * self.size))]
        return slice(ends[rank], ends[rank + 1])

    def broadcast_int(self, number: int) -> int:
        """Broadcast an int from rank 0 (also a barrier)."""
        own = torch.tensor(number * self.is_main, dtype=torch.int64, device=self.device)
        return int(self.sum(own))

    def barrier(self) -> None:
        """Return when all ranks have called this."""
        self.broadcast_int(0)

    def finish(self, work: dist.Work | None) -> None:
        """Wait for a collective whose result is read immediately.

        Plain `wait` only makes a GPU's stream wait, not this process. If a peer is lost, this
        process would hang when it reads the result, until NCCL's watchdog aborts it. Here it raises
        dist.DistBackendError after the timeout.
        """
        assert work is not None
        if self.device.type == "cuda":
            work.wait(self.timeout)
        else:
            work.wait()

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all ranks."""
        if self.size > 1:
            tensor = tensor.clone()
            self.finish(dist.all_reduce(tensor, async_op=True))
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """Return every rank's tensor [...], all of one shape, as [ranks, ...]."""
        if self.size == 1:
            return tensor.unsqueeze(0)
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        self.finish(dist.all_gather(parts, tensor, async_op=True))
        return torch.stack(parts)

    def gather_lanes(self, own: Tensor, total: int, *, everywhere: bool = True) -> Tensor:
        """Join each rank's part [L, B, n] along B into [L, total, n], in CPU memory.

        A single rank gets its own tensor back.

        everywhere: return the whole on every rank; otherwise the main rank alone gets the whole,
        and each other rank its own part. A GPU holds one rank's part at a time.
        """
        if self.size == 1:
            return own
        parts = []
        for rank in range(self.size):  # broadcasts, since parts may differ in size
            span = self.slice_of(rank, total)
            count = span.stop - span.start
            if not count:
                continue
            shape = (own.shape[0], count, own.shape[2])
            part = own.contiguous() if rank == self.rank else own.new_empty(shape)
            self.finish(dist.broadcast(part, src=rank, async_op=True))
            if everywhere or self.is_main or rank == self.rank:
                parts.append(part.cpu())
        return torch.cat(parts, dim=1) if parts else own.cpu()


def apportion(items: int, shares: Sequence[float]) -> list[int]:
    """Divide whole items in proportion, by largest remainders; none is left over."""
    total = sum(shares)
    exact = [items * share / total for share in shares]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda rank: counts[rank] - exact[rank])
    for rank in by_remainder[: items - sum(counts)]:
        counts[rank] += 1
    return counts


def rebalanced_shares(
    speeds: Sequence[float], counts: Sequence[int], lanes: int
) -> tuple[float, ...] | None:
    """Return shares in proportion to measured speed; None if they would save little.

    counts: the lanes that each rank has now. A rank that has none keeps none: its speed is unknown.
    """
    shares = tuple(speed if count else 0.0 for speed, count in zip(speeds, counts, strict=True))
    if not sum(shares):
        return None
    now = max(count / share for count, share in zip(counts, shares, strict=True) if share)
    return shares if lanes / sum(shares) < (1 - _HYSTERESIS) * now else None


class WaitingTogether:
    """Makes ranks that have finished their part of the work wait for the others.

    Each rank calls `working` or `meet` often while it works, and `finished` at its end. The ranks
    synchronize regularly, so that no wait for a peer reaches the timeout. is_time_up: of this rank.
    Once it is, all three raise TimeIsUp on every rank.
    """

    def __init__(self, world: World, is_time_up: Callable[[], bool] = never):
        self.world, self.is_time_up = world, is_time_up
        most = min(world.timeout.total_seconds() / 4, _SECONDS_TO_ASK)
        self._every = most if world.size > 1 else 0.0
        self._barrier_time = time.monotonic()

    def working(self) -> None:
        if time.monotonic() - self._barrier_time >= self._every:
            self.meet()

    def meet(self) -> None:
        """Synchronize now, for work whose next part may take almost as long as the timeout."""
        self._all_finished(False)

    def finished(self) -> None:
        """Return when all ranks have finished."""
        while not self._all_finished(True):
            pass

    def _all_finished(self, own: bool) -> bool:
        flags = torch.tensor([own, self.is_time_up()], dtype=torch.int64, device=self.world.device)
        finished, stopping = self.world.sum(flags).tolist()
        self._barrier_time = time.monotonic()
        if stopping and finished < self.world.size:
            raise TimeIsUp
        return finished == self.world.size


class AsyncFlags:
    """All-reduces flags without waiting: each step gets the result of the step before.

    On a GPU this uses a separate stream: the main stream already has this step's kernels and never
    runs empty.
    """

    def __init__(self, world: World):
        self.world = world
        on_gpu = world.size > 1 and world.device.type == "cuda"
        self._stream = torch.cuda.Stream(world.device) if on_gpu else None
        self._under_way: tuple[Tensor, dist.Work | None] | None = None

    def __enter__(self) -> "AsyncFlags":
        return self

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        if error is None:  # else peers may be gone
            self._result()

    def reduce(self, *flags: bool) -> Sequence[bool]:
        """Return which of the previous step's flags were set on any rank; at the first step, none.

        The answer is the same on every rank. A single process gets its own flags immediately. A
        lost peer is noticed here, a step later.
        """
        if self.world.size == 1:
            return flags
        answer = self._result() or [False] * len(flags)
        if self._stream is not None:  # NCCL's groups need a fixed order: the gradients, the flags
            self._stream.wait_stream(torch.cuda.current_stream(self.world.device))
        with self._on_own_stream():
            sums = torch.zeros(len(flags), device=self.world.device)
            for place in (place for place, flag in enumerate(flags) if flag):
                sums[place] = 1.0  # by a kernel: a copy from the host would wait for the step
            self._under_way = sums, dist.all_reduce(sums, async_op=True)
        return answer

    def _result(self) -> list[bool]:
        if self._under_way is None:
            return []
        (sums, work), self._under_way = self._under_way, None
        with self._on_own_stream():
            self.world.finish(work)
            return [number > 0 for number in sums.tolist()]

    def _on_own_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


@contextmanager
def launched(device: TrainingDevice, timeout: float = 300.0) -> Iterator[World]:
    """Join the world that `python -m torch.distributed.run` describes, or be a world of one.

    A peer that is gone, or silent for `timeout` seconds, ends the process with exit code 75. Under
    a launcher that may restart it, so do a missing GPU and a lack of memory: the next attempt may
    have other nodes.
    """
    _refuse_copies()
    size, rank = _launcher_number("WORLD_SIZE", 1), _launcher_number("RANK", 0)
    if not 0 <= rank < size:
        raise InputError(f"RANK is {rank}, but WORLD_SIZE is {size}; {HOW_TO_LAUNCH}")
    longest = timedelta(seconds=timeout)
    try:
        chosen = device_of_rank(device, _launcher_number("LOCAL_RANK", 0))
        if size > 1:
            from .joining import join

            join(chosen, longest)
        yield World(rank, size, chosen, timeout=longest)
    except (RuntimeError, MemoryError, MissingGpu) as error:
        from .joining import leave_if_temporary

        leave_if_temporary(error)
        raise
    finally:
        if dist.is_initialized():
            _destroy_group()


def _destroy_group() -> None:
    """Free all that holds the group of ranks, then the group, whose threads end with it.

    DDP holds it, from reference cycles and, after an error, from the frames of its traceback. If
    DDP were its last holder, it would wait for gloo's threads while they wait for the lock of the
    interpreter (pytorch/pytorch#56297); threads that are alive when the interpreter exits sometimes
    abort (pytorch/pytorch#179291).
    """
    error = sys.exc_info()[1]
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
    gc.collect()
    dist.destroy_process_group()


def _launcher_number(name: str, default: int) -> int:
    """Return a number that a launcher has set; InputError if it is none."""
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"{name} is {text!r}, not a number; {HOW_TO_LAUNCH}") from error


def _refuse_copies() -> None:
    """Raise InputError in one of several processes that do not know each other."""
    if "WORLD_SIZE" in os.environ:
        return
    for name, launcher in _COPIES.items():
        if (copies := _launcher_number(name, 1)) > 1:
            raise InputError(
                f"{launcher} started {copies} copies of this command, and each would train alone: "
                f"start one, `python -m torch.distributed.run --nproc-per-node {copies} main.py "
                "...`, or on several nodes one `bash scripts/elastic.sh ... main.py ...` each "
                f"(docs/elastic.md); if there is only this one, unset {name}"
            )


def device_of_rank(device: TrainingDevice, local_rank: int = 0) -> torch.device:
    """Return this rank's GPU and make it torch's current one; the CPU if there is no usable GPU.

    A process may see all GPUs of its machine, or only its own, as with Slurm's --gpus-per-task.
    `launched` checks that no two ranks have the same one. Raises InputError if `cuda` is asked for
    and torch can use no GPU.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    from model.inference.devices import missing_kernels, reason_against, warn_if_unused

    chosen = torch.device("cuda", local_rank % max(torch.cuda.device_count(), 1))
    if device == "cuda" and (reason := reason_against(chosen)):
        raise MissingGpu(f"train.device is cuda: {reason}; use auto or cpu")
    if device == "auto" and warn_if_unused(missing_kernels(chosen.index)):
        return torch.device("cpu")
    torch.cuda.set_device(chosen)
    return chosen


def run_on_main(world: World, act: Callable[[], object]) -> str:
    """Run `act` on the main rank only; return its result, as text, on every rank.

    An InputError or TryAgain of `act` is raised on every rank, so that none waits for one that has
    ended. So is an OSError about a path that cannot be used.
    """
    if world.size == 1:
        return _result_of(act)
    answer: dict[str, Any] = {}
    if world.is_main:
        try:
            answer = {"result": _result_of(act)}
        except InputError as error:
            answer = {"refusal": str(error), "is_busy": isinstance(error, TryAgain)}
    answer = json.loads(_text_from_main(world, json.dumps(answer)))
    if "refusal" in answer:
        raise (TryAgain if answer["is_busy"] else InputError)(answer["refusal"])
    return str(answer["result"])


def _result_of(act: Callable[[], object]) -> str:
    """Return the result of `act` as text; InputError for an OSError that would occur again."""
    try:
        return str(act())
    except OSError as error:
        if error.filename is None or error.errno not in _PERMANENT:
            raise
        raise InputError(f"{error.filename}: {error.strerror}") from error


def _text_from_main(world: World, text: str) -> str:
    """Return the main rank's text, which is ASCII."""
    content = torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8)
    size = world.broadcast_int(len(content))
    buffer = content.to(world.device) if world.is_main else content.new_empty(size).to(world.device)
    dist.broadcast(buffer, src=0)
    return bytes(buffer.tolist()).decode("ascii")


def check_same(world: World, facts: Mapping[str, object]) -> None:
    """Raise InputError, on every rank, unless all ranks have the same facts as the main rank.

    facts: values by their names in the error, compared by their `repr`.
    """
    digests = [blake2b(repr(fact).encode(), digest_size=8).digest() for fact in facts.values()]
    numbers = [int.from_bytes(digest, "big", signed=True) for digest in digests]
    by_rank = world.gather(torch.tensor(numbers, device=world.device))  # int64 [ranks, facts]
    different = (by_rank != by_rank[0]).cpu()
    if different.any():
        names = [name for name, differs in zip(facts, different.any(0), strict=True) if differs]
        ranks = name_ranks(different.any(1).nonzero().flatten().tolist())
        raise InputError(
            f"{ranks} and the main rank do not have the same {', '.join(names)}; start all ranks "
            "with the same command, and give all machines the same files"
        )


def check_same_weights(world: World, model: LanguageModel) -> None:
    """Raise InputError, on every rank, unless all have the same weights in the same dtype."""
    if world.size > 1:
        check_same(world, {"weights": model_digest(model)})


def report_implementations(world: World, model: LanguageModel) -> None:
    """Warn, on the main rank, if some ranks compute the recurrence in another way than it does.

    A rank whose kernels fail to build falls back to a slower implementation, and all others wait
    for it in every step.
    """
    own = model.implementation.encode()[:_LONGEST_NAME].ljust(_LONGEST_NAME)
    texts = world.gather(torch.tensor(list(own), dtype=torch.uint8, device=world.device))
    names = [bytes(text).decode(errors="replace").strip() for text in texts.tolist()]
    for name in sorted({*names} - {names[0]}) if world.is_main else ():
        ranks = [rank for rank, other in enumerate(names) if other == name]
        log.warning(
            f"{name_ranks(ranks)} of {world.size}: the recurrence is {name}, on the main rank "
            f"{names[0]}; every step waits for the slowest rank"
        )


def name_ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
