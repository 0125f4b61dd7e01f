"""Which device a process gets; on a GPU, what waits for whom, with stand-ins for CUDA and NCCL."""

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from math import inf
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from mlstm_sentiment.errors import InputError
from training.parallel import distributed, joining
from training.parallel.distributed import device_of_rank, launched
from training.parallel.exchange import every_ranks, send_to_main
from training.parallel.joining import own_part
from training.parallel.launcher import MissingGpu

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def show_gpus(monkeypatch):
    """Return a function that lets this process see some GPUs, by their uuids."""

    def show(*uuids):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(uuids))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(uuids))
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
        monkeypatch.setattr(
            torch.cuda,
            "get_device_properties",
            lambda device: SimpleNamespace(uuid=uuids[device.index]),
        )
        monkeypatch.setattr(
            torch.cuda, "get_arch_list", list
        )  # a build for GPUs would look at them

    return show


def devices_of(show_gpus, ranks, device="auto"):
    """Start ranks, each with its visible GPUs; return their devices, or the refusal."""
    devices, names = [], []
    for rank, uuids in enumerate(ranks):
        show_gpus(*uuids)
        devices.append(device_of_rank(device, local_rank=rank))
        names.append(joining._name_of(devices[-1]))
    joining._check_devices(names)
    return devices


@pytest.mark.parametrize(
    ("ranks", "indices"),
    [
        ([["a", "b"]] * 2, [0, 1]),  # all see all
        ([["a"], ["b"]], [0, 0]),  # Slurm's --gpus-per-task 1, or CUDA_VISIBLE_DEVICES a rank
        ([["a", "b"], ["c", "d"], ["e", "f"]], [0, 1, 0]),  # two a task
    ],
)
def test_every_rank_uses_its_own_gpu(show_gpus, ranks, indices):
    assert devices_of(show_gpus, ranks) == [torch.device("cuda", index) for index in indices]
    assert devices_of(show_gpus, ranks, "cpu") == [CPU] * len(ranks)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([["a", "b"]] * 3, "ranks 0 and 2 are both on GPU a of"),
        ([["a"], ["a"]], "ranks 0 and 1 are both on GPU a of"),
        ([["a"], []], "rank 1 sees no GPU, rank 0 has one; set train.device cpu"),
    ],
)
def test_devices_that_do_not_go_together_are_refused(show_gpus, ranks, message):
    with pytest.raises(MissingGpu, match=message):
        devices_of(show_gpus, ranks)


def test_a_gpu_is_refused_if_there_is_none(show_gpus):
    show_gpus()
    with pytest.raises(InputError, match="torch sees no GPU"):
        device_of_rank("cuda")


@pytest.fixture
def leaving(monkeypatch):
    """Return a function that sets what a launcher does; an exit is SystemExit here."""

    def leave(code):
        raise SystemExit(code)

    def start(device, **environment):
        monkeypatch.setattr(os, "_exit", leave)
        monkeypatch.setattr(distributed, "device_of_rank", lambda *args: device)
        monkeypatch.setattr(joining, "join", lambda *args: None)
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))

    return start


class LostWork:
    """An exchange with a peer that is gone, on NCCL: only a wait with a time limit notices."""

    def wait(self, timeout=None):
        if timeout is not None:
            assert timeout == timedelta(seconds=7)
            raise dist.DistBackendError("NCCL timed out")


ONE_NODE, NODES = {"GROUP_WORLD_SIZE": "1"}, {"GROUP_WORLD_SIZE": "2"}
ONE_STORE = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
RESTARTED = {"TORCHELASTIC_MAX_RESTARTS": "5", "TORCHELASTIC_RESTART_COUNT": "3"}


@pytest.mark.parametrize(
    ("environment", "prefix", "warnings"),
    [
        (ONE_NODE | ONE_STORE | RESTARTED, "3/", 0),
        (NODES | ONE_STORE | RESTARTED, "", 1),
        (NODES | RESTARTED, "", 0),  # a store for each attempt
        (NODES | ONE_STORE, "", 0),  # a single attempt
    ],
)
def test_attempts_on_one_node_share_no_keys_and_those_on_several_are_warned_about(
    environment, prefix, warnings, monkeypatch, caplog
):
    for name in {**ONE_NODE, **ONE_STORE, **RESTARTED}:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    store, stores = dist.HashStore(), []
    places = iter([(store, 0, 2), (store, 1, 2)])
    monkeypatch.setattr(dist, "rendezvous", lambda *args, **options: iter([next(places)]))
    monkeypatch.setattr(
        dist, "init_process_group", lambda *args, **options: stores.append(options["store"])
    )
    with ThreadPoolExecutor(2) as ranks:
        list(ranks.map(lambda _: joining.join(CPU, timedelta(seconds=7)), range(2)))
    assert store.check([f"{prefix}here/0", f"{prefix}here/1"])
    for own in stores:
        own.set("of the group", "")
    assert len(stores) == 2
    assert store.check([f"{prefix}of the group"])
    assert ["keeps one store" in line for line in caplog.messages] == [True] * warnings


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1", [joining.DUMP_SECONDS]), ("True", [joining.DUMP_SECONDS]), ("0", []), ("", [])],
)
def test_a_rank_that_leaves_waits_for_nccls_flight_recorder_if_there_is_one(
    value, seconds, monkeypatch, leaving
):
    slept = []
    monkeypatch.setattr(joining.time, "sleep", slept.append)
    leaving(CPU, WORLD_SIZE=2, RANK=0, TORCH_NCCL_DUMP_ON_TIMEOUT=value)
    with pytest.raises(SystemExit), launched("cpu"):
        raise dist.DistBackendError("NCCL timed out")
    assert slept == seconds


def of_two_states(world):
    moment = torch.zeros(2)
    if world.rank:
        send_to_main({"moment": SimpleNamespace(to=lambda device: moment)}, world)
    list(every_ranks({"moment": moment}, world))


@pytest.mark.parametrize(
    ("cores", "warnings"),
    [
        ([set(), set()], []),  # not bound
        ([{0, 1}, {2, 3}], []),  # each has its own, as of srun
        ([{0, 1}, {2, 3}, {2, 3}, {1}], ["ranks 0, 3 to", "ranks 1, 2 to"]),
    ],
)
def test_ranks_that_openmp_binds_to_the_same_cores_are_reported_once(cores, warnings, caplog):
    for rank in range(len(cores)):
        joining._compare_cores(rank, ["here"] * len(cores), cores)
    named = [re.search(r"ranks [0-9, ]* to", line).group() for line in caplog.messages]
    assert sorted(named) == warnings


@pytest.mark.parametrize(
    ("said", "threads"),
    [({}, 3), ({"OMP_NUM_THREADS": "1"}, 3), ({"OMP_NUM_THREADS": "2"}, 1)],  # 1 is conftest's
)
def test_ranks_divide_the_cores_unless_somebody_chose_a_number(monkeypatch, said, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in ({"LOCAL_WORLD_SIZE": "2"} | said).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(joining, "quota", lambda: inf)
    monkeypatch.setattr(joining, "owns_process", lambda: True)
    chosen = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    for rank in range(2):
        joining._share_cores(rank, [("here", 0b111111)] * 2)
    assert chosen == ([threads] * 2 if threads == 3 else [])


@pytest.mark.parametrize(
    ("cores", "processes", "quota", "parts"),
    [
        (["0-7", "0-7"], 2, inf, [4, 4]),  # unbound
        (["0", "1-7"], 2, inf, [1, 7]),  # bound to cores of their own
        (["0-3", "0-3", "4-7", "4-7"], 4, inf, [2, 2, 2, 2]),  # two to a socket
        (["0-7", "4-7"], 2, inf, [4, 2]),  # to some of another's
        (["0", "0"], 2, inf, [1, 1]),  # more ranks than cores
        (["0-7", "0-7"], 2, 3.5, [2, 2]),
        (["0-3", "4-7"], 2, 3.5, [2, 2]),  # a quota for bound ones together
        (["0-7", "0-7"], 1, inf, [8, 8]),  # two machines of one name
        (["0-7", "0-7"], None, 3.5, [2, 2]),  # a launcher that says no number
    ],
)
def test_a_rank_keeps_cores_of_its_own_and_divides_those_that_others_use_too(
    cores, processes, quota, parts
):
    def bits(span):
        first, _, last = span.partition("-")
        return sum(1 << core for core in range(int(first), int(last or first) + 1))

    places = [("here", bits(span)) for span in cores]
    elsewhere = [("there", bits("0-7"))] * 2
    ranks = range(len(cores))
    assert [own_part(r, [*places, *elsewhere], processes, quota) for r in ranks] == parts


def test_machines_of_one_name_are_distinguished(monkeypatch, tmp_path):
    names = set()
    for boot in ("one", "other"):
        (tmp_path / boot).write_text(f"{boot}\n")
        monkeypatch.setattr(joining, "BOOT", tmp_path / boot)
        names.add(joining._machine())
    assert len(names) == 2
    monkeypatch.setattr(joining, "BOOT", tmp_path / "absent")
    assert joining._machine() == socket.gethostname()


@pytest.mark.parametrize(
    "exchange",
    [
        lambda world: world.sum(torch.zeros(2)),
        lambda world: world.gather(torch.zeros(2)),
        lambda world: world.gather_lanes(torch.zeros(1, 1, 3), 2),
        of_two_states,
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_peer_on_a_gpu_ends_the_process_as_one_on_a_cpu_does(
    exchange, rank, monkeypatch, capsys, leaving
):
    for name in ("all_reduce", "all_gather", "broadcast", "isend", "irecv", "send", "recv"):
        monkeypatch.setattr(dist, name, lambda *args, **kwargs: LostWork())
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *args, device, **kwargs: empty(*args, **kwargs))
    leaving(GPU, WORLD_SIZE=2, RANK=rank)
    with pytest.raises(SystemExit) as end, launched("auto", timeout=7.0) as world:
        exchange(world)
    assert end.value.code == os.EX_TEMPFAIL
    said = capsys.readouterr().err
    assert said == f"[rank {rank}] error: lost a peer: NCCL timed out\n"


@pytest.mark.parametrize(
    "reason", ["[gloo/transport/tcp/pair.cc] Timed out", "Application timeout caused pair closure"]
)
def test_a_peer_that_gloo_lost_ends_the_process(reason, capsys, leaving):
    leaving(CPU, WORLD_SIZE=2, RANK=0)
    with pytest.raises(SystemExit) as end, launched("cpu"):
        raise RuntimeError(reason)
    assert end.value.code == os.EX_TEMPFAIL
    assert capsys.readouterr().err == f"[rank 0] error: lost a peer: {reason}\n"


@pytest.mark.parametrize(
    ("ranks", "restarts", "error"),
    [
        (2, 3, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")),
        (2, 3, RuntimeError("DefaultCPUAllocator: can't allocate memory")),
        (2, 3, MemoryError("of one rank")),
        (2, 3, MissingGpu("ranks 0 and 7 are both on GPU a")),
        (1, 3, MemoryError("of the only rank")),
        (2, 0, MemoryError("of one rank")),
        (1, 0, MissingGpu("ranks 0 and 7 are both on GPU a")),
    ],
)
def test_what_another_attempt_may_not_lack_ends_no_launcher_that_restarts(
    ranks, restarts, error, capsys, leaving
):
    leaving(CPU, WORLD_SIZE=ranks, RANK=0, TORCHELASTIC_MAX_RESTARTS=restarts)
    with pytest.raises((SystemExit, type(error))) as end, launched("auto"):
        raise error
    said = capsys.readouterr().err
    if not restarts:
        assert end.value is error
        assert not said
    else:
        assert end.value.code == os.EX_TEMPFAIL
        assert said.startswith("[rank 0] error: ")
        assert said.count("\n") == 1
        assert str(error) in said


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"WORLD_SIZE": ""}, "^WORLD_SIZE is '', not a number; start the ranks with torch"),
        ({"RANK": "one"}, "^RANK is 'one', not a number"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, "^srun started 2 copies .* start one, `python -m torch"),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, "^mpirun started 8 copies"),
        ({"PMI_SIZE": "3"}, "^mpirun started 3 copies .*unset PMI_SIZE$"),
        ({"LOCAL_RANK": "one"}, "^LOCAL_RANK is 'one', not a number"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "^RANK is 2, but WORLD_SIZE is 2; start"),
        ({"WORLD_SIZE": "2"}, "^RANK, MASTER_ADDR or MASTER_PORT is missing or wrong .*RANK exp"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "::1", "MASTER_PORT": "abc"}, "'abc'"),
    ],
)
def test_an_incomplete_environment_is_refused(environment, said, monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=said), launched("cpu"):
        pass
