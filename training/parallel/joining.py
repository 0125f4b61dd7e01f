"""How ranks find each other at the start, and leave when one is lost."""

import json
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

from mlstm_sentiment.engine.cores import bound_cores, core_numbers, quota
from mlstm_sentiment.errors import TEMPORARY_FAILURE, InputError
from model.kernels.cores import owns_process

from .launcher import HOW_TO_LAUNCH, MissingGpu, may_restart, print_error

BOOT = Path("/proc/sys/kernel/random/boot_id")  # of Linux: another one after each start
_JOIN = timedelta(minutes=5)  # for all ranks to join: torch alone may take a minute to load
_SHARED_STORE = (
    "torchrun keeps one store over its restarts, and ranks on several nodes never find each other "
    "again in it (pytorch/pytorch#135712): start it with scripts/elastic.sh, or with "
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment"
)

DUMP_SECONDS = 15.0  # in which NCCL's watchdog writes its flight recorder, if asked to

log = logging.getLogger(__name__)


def join(device: torch.device, timeout: timedelta) -> None:
    """Join the other ranks, in a store without keys from earlier attempts."""
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=_JOIN))
    except ValueError as error:
        wrong = "RANK, MASTER_ADDR or MASTER_PORT is missing or wrong"
        raise InputError(f"{wrong} ({error}); {HOW_TO_LAUNCH}") from error
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True) and may_restart():
        if os.environ.get("GROUP_WORLD_SIZE") == "1":  # each node counts its own restarts
            store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
        elif rank == 0:
            log.warning(_SHARED_STORE)
    cores = sum(1 << core for core in core_numbers())
    own = (_name_of(device), _machine(), sorted(bound_cores()), cores)
    store.set(f"here/{rank}", json.dumps(own))
    keys = [f"here/{peer}" for peer in range(size)]
    store.wait(keys, _JOIN)
    devices, machines, bound, allowed = zip(*map(json.loads, store.multi_get(keys)), strict=True)
    _check_devices(devices)
    _compare_cores(rank, machines, bound)
    _share_cores(rank, list(zip(machines, allowed, strict=True)))
    backend = dist.get_default_backend_for_device(device)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _compare_cores(rank: int, machines: Sequence[str], bound: Sequence[Collection[int]]) -> None:
    """Warn, on the first rank concerned, if OpenMP binds ranks of a machine to the same cores."""
    places = enumerate(zip(machines, bound, strict=True))
    own = set(bound[rank])
    sharing = [peer for peer, (m, cores) in places if m == machines[rank] and own & set(cores)]
    if len(sharing) > 1 and sharing[0] == rank:
        log.warning(
            "OMP_PROC_BIND or OMP_PLACES binds the threads of ranks "
            f"{', '.join(map(str, sharing))} to the same cores of {socket.gethostname()}: unset "
            "it, or give each rank its own cores (taskset, srun --cpu-bind=cores)"
        )


def _share_cores(rank: int, places: Sequence[tuple[str, int]]) -> None:
    """Set the number of threads to this process's part of the cores, unless a number is set.

    torch.distributed.run sets OMP_NUM_THREADS=1 if it is not set, which leaves cores idle. torch's
    own default takes all cores in every process, which is worse.

    places: as for `own_part`.
    """
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


def leave_if_temporary(error: Exception) -> None:
    """End the process with code 75 after an error that may not recur on another attempt."""
    if reason := _temporary(error):
        _leave_at_once(f"{reason}{' '.join(str(error).split())}")


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
