"""The ranks of a run: how they find each other, and the collectives that they use."""

import gc
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, NoReturn

import torch
import torch.distributed as dist

# Imported early: its functions take the current group as a default argument. DDP imports it once a
# group exists: the default would then hold it, and gloo's threads, until the interpreter exits.
import torch.distributed.nn
from torch import Tensor

from mlstm_sentiment.engine.cores import bound_cores, core_numbers, quota
from mlstm_sentiment.errors import TEMPORARY_FAILURE, InputError, TimeIsUp
from model.kernels.process import owns_process

from .launcher import may_restart, print_error

TrainingDevice = Literal["auto", "cpu", "cuda"]
BOOT = Path("/proc/sys/kernel/random/boot_id")  # of Linux: another one after each start
_JOIN = timedelta(minutes=5)  # for all ranks to join: torch alone may take a minute to load
DUMP_SECONDS = 15.0  # in which NCCL's watchdog writes its flight recorder, if asked to
_SHARED_STORE = (
    "torchrun keeps one store over its restarts, and ranks on several nodes never find each other "
    "again in it (pytorch/pytorch#135712): start it with scripts/elastic.sh, or with "
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment"
)
# What srun and mpirun (Open MPI, MPICH) set to the number of copies that they start.
_COPIES = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun", "PMI_SIZE": "mpirun"}
_SECONDS_TO_ASK = 5.0  # between two questions of all ranks whether the time is up
_LAUNCH = "start the ranks with torch.distributed.run, or unset WORLD_SIZE, RANK and LOCAL_RANK"


def never() -> bool:
    """Return False: the time is not up."""
    return False


class MissingGpu(InputError):
    """A rank has no GPU of its own: the command asks for too many, or one was lost."""


class LaneSplit:
    """Splits lanes evenly among ranks; `parallel.shares` overrides this."""

    def __call__(self, rank: int, ranks: int, items: int) -> slice:
        return slice(rank * items // ranks, (rank + 1) * items // ranks)

    def rebalanced(self, speeds: Sequence[float], lanes: int) -> "LaneSplit | None":
        """Return the split to use from now on, by each rank's speed; None to keep this one."""
        return None


EVEN = LaneSplit()


@dataclass(frozen=True)
class World:
    """This process among its peers; a single process is a world of one."""

    rank: int
    size: int
    device: torch.device
    lane_split: LaneSplit = EVEN  # which lanes are a rank's
    timeout: timedelta = timedelta(minutes=5)  # of every collective: no hang if a peer is lost

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def own_slice(self, items: int) -> slice:
        return self.slice_of(self.rank, items)

    def slice_of(self, rank: int, items: int) -> slice:
        """Return a rank's contiguous slice of `items`."""
        return self.lane_split(rank, self.size, items)

    def broadcast_int(self, number: int, flag: bool = False) -> int:
        """Broadcast an int from rank 0 (also a barrier); flag: this rank's, for a `barrier`."""
        return self._sum_of(number * self.is_main, flag)[0]

    def barrier(self, flag: bool = False) -> bool:
        """Return, when all ranks have called this, whether one of them set its flag."""
        return self._sum_of(0, flag)[1] > 0

    def _sum_of(self, *numbers: int) -> list[int]:
        return self.sum(torch.tensor(numbers, dtype=torch.int64, device=self.device)).tolist()

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


class WaitingTogether:
    """Makes ranks that have finished their part of the work wait for the others.

    Each rank calls `working` often while it works, and `finished` at its end. The ranks synchronize
    regularly, so that no wait for a peer reaches the timeout. is_time_up: of this rank. Once it is,
    both raise TimeIsUp on every rank.
    """

    def __init__(self, world: World, is_time_up: Callable[[], bool] = never):
        self.world, self.is_time_up = world, is_time_up
        most = min(world.timeout.total_seconds() / 4, _SECONDS_TO_ASK)
        self._every = most if world.size > 1 else 0.0
        self._barrier_time = time.monotonic()

    def working(self) -> None:
        if time.monotonic() - self._barrier_time >= self._every:
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
        raise InputError(f"RANK is {rank}, but WORLD_SIZE is {size}; {_LAUNCH}")
    longest = timedelta(seconds=timeout)
    try:
        chosen = device_of_rank(device, _launcher_number("LOCAL_RANK", 0))
        if size > 1:
            _join(chosen, longest)
        yield World(rank, size, chosen, timeout=longest)
    except (RuntimeError, MemoryError, MissingGpu) as error:
        if reason := _temporary(error):
            _leave_at_once(f"{reason}{' '.join(str(error).split())}")
        raise
    finally:
        # DDP is in reference cycles and holds the group. When its last holder is freed, gloo's
        # threads end; if they are alive when the interpreter exits, they sometimes abort
        # (pytorch/pytorch#179291).
        gc.collect()
        if dist.is_initialized():
            dist.destroy_process_group()


def _launcher_number(name: str, default: int) -> int:
    """Return a number that a launcher has set; InputError if it is none."""
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"{name} is {text!r}, not a number; {_LAUNCH}") from error


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


def _join(device: torch.device, timeout: timedelta) -> None:
    """Join the other ranks, in a store without keys from earlier attempts."""
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=_JOIN))
    except ValueError as error:
        wrong = "RANK, MASTER_ADDR or MASTER_PORT is missing or wrong"
        raise InputError(f"{wrong} ({error}); {_LAUNCH}") from error
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True) and may_restart():
        if os.environ.get("GROUP_WORLD_SIZE") == "1":  # each node counts its own restarts
            store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
        elif rank == 0:
            logging.getLogger(__name__).warning(_SHARED_STORE)
    _check_devices(_exchange(store, rank, size, "here", _name_of(device)))  # waits for all ranks
    _compare_cores(store, rank, size, bound_cores())
    _share_cores(store, rank, size)
    backend = dist.get_default_backend_for_device(device)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _compare_cores(store: dist.Store, rank: int, size: int, bound: Collection[int]) -> None:
    """Warn, on the first rank concerned, if OpenMP binds ranks of a machine to the same cores."""
    places = f"{_machine()} {' '.join(map(str, sorted(bound)))}"
    texts = _exchange(store, rank, size, "cores", places)
    owns = [(host, set(cores)) for host, *cores in map(str.split, texts)]
    own_host, own = owns[rank]
    sharing = [peer for peer, (host, cores) in enumerate(owns) if host == own_host and cores & own]
    if len(sharing) > 1 and sharing[0] == rank:
        logging.getLogger(__name__).warning(
            "OMP_PROC_BIND or OMP_PLACES binds the threads of ranks "
            f"{', '.join(map(str, sharing))} to the same cores of {socket.gethostname()}: unset "
            "it, or give each rank its own cores (taskset, srun --cpu-bind=cores)"
        )


def _share_cores(store: dist.Store, rank: int, size: int) -> None:
    """Set the number of threads to this process's part of the cores, unless a number is set.

    torch.distributed.run sets OMP_NUM_THREADS=1 if it is not set, which leaves cores idle. torch's
    own default takes all cores in every process, which is worse.
    """
    own = sum(1 << core for core in core_numbers())
    texts = _exchange(store, rank, size, "affinity", f"{_machine()} {own:x}")
    places = [(machine, int(cores, 16)) for machine, cores in map(str.split, texts)]
    local_size = os.environ.get("LOCAL_WORLD_SIZE")  # srun and mpirun do not
    processes = int(local_size) if local_size else None
    if owns_process() and os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(own_part(rank, places, processes, quota()))


def _machine() -> str:
    """Return a word that identifies this machine, since host names may not be unique."""
    with suppress(OSError):
        return f"{socket.gethostname()}/{BOOT.read_text().strip()}"
    return socket.gethostname()


def own_part(
    rank: int, places: Sequence[tuple[str, int]], processes: int | None, quota: float
) -> int:
    """Return how many cores of its machine a rank gets, at least one.

    A rank's cores are divided evenly among the ranks that may run on them. A rank that is bound to
    its own cores (taskset, srun --cpu-bind) keeps them all.

    places: each rank's machine, and a bit mask of the cores on which it may run. processes: ranks
    per machine, if the launcher sets it. quota: CPU time, in cores, for all of a machine's ranks
    together; infinity if there is no quota.
    """
    machine, own = places[rank]
    neighbours = [cores for peer, cores in places if peer == machine]
    most = processes or len(neighbours)
    sharing = sum(bool(cores & own) for cores in neighbours)
    part = own.bit_count() // min(sharing, most)
    if math.isfinite(quota):
        part = min(part, math.ceil(quota) // most)
    return max(1, part)


def _exchange(store: dist.Store, rank: int, size: int, name: str, text: str) -> list[str]:
    """Return every rank's text under this name, which must not be used twice."""
    store.set(f"{name}/{rank}", text)
    keys = [f"{name}/{peer}" for peer in range(size)]
    store.wait(keys, _JOIN)
    return [value.decode() for value in store.multi_get(keys)]


def _name_of(device: torch.device) -> str:
    """Return the GPU's unique name, independent of its number in this process."""
    if device.type != "cuda":
        return device.type
    return f"GPU {torch.cuda.get_device_properties(device).uuid} of {socket.gethostname()}"


def _check_devices(names: Sequence[str]) -> None:
    """Raise MissingGpu if two ranks have the same GPU, or only some of them have one."""
    owners: dict[str, int] = {}
    for rank, name in enumerate(names):
        owner = owners.setdefault(name, rank)
        if owner != rank and name != "cpu":
            raise MissingGpu(
                f"ranks {owner} and {rank} are both on {name}; start as many processes on a "
                "machine as it has GPUs (--nproc-per-node), or make only its own visible to each "
                "process (CUDA_VISIBLE_DEVICES)"
            )
    if "cpu" in owners and len(owners) > 1:
        having = min(rank for name, rank in owners.items() if name != "cpu")
        raise MissingGpu(
            f"rank {owners['cpu']} sees no GPU, rank {having} has one; set train.device cpu, or "
            "start processes only where there are GPUs"
        )


def _temporary(error: Exception) -> str:
    """Return what to print before an error that may not recur on another attempt; else ""."""
    text = str(error).lower()
    of_gloo = any(words in text for words in ("gloo", "caused pair closure"))
    if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and of_gloo):
        return "lost a peer: "
    if not may_restart():
        return ""
    if isinstance(error, MissingGpu):
        return "a GPU is missing: "
    memory = ("can't allocate memory", "out of memory")
    full = isinstance(error, MemoryError) or any(words in text for words in memory)
    return "out of memory, to be restarted: " if full else ""


def _leave_at_once(line: str) -> NoReturn:
    """Print the reason and exit immediately, since clean-up code could wait for a lost peer."""
    print_error(f"[rank {os.environ.get('RANK', '0')}] error: {line}")
    with suppress(OSError, ValueError):
        if sys.stdout is not None:
            sys.stdout.flush()
    if os.environ.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "").lower() in ("1", "true", "y", "yes"):
        time.sleep(DUMP_SECONDS)
    os._exit(TEMPORARY_FAILURE)


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
