"""What ranks agree on, and how a rank that differs is found."""

import errno
import os
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from mlstm_sentiment.errors import InputError, TryAgain
from model.kernels.amx import library
from training import precision
from training.parallel import distributed as agreement
from training.parallel.distributed import (
    World,
    check_same,
    report_implementations,
    run_on_main,
)
from training.precision import agreed_muon_dtype, agreed_precision

CPU = torch.device("cpu")


class Among(World):
    """A rank whose peers answer with what is in `others`."""

    others: list[torch.Tensor]

    def gather(self, tensor):
        rows = [other.to(tensor.dtype) for other in self.others]
        rows.insert(self.rank, tensor)
        return torch.stack(rows)


def among(rank, *others):
    world = Among(rank, len(others) + 1, CPU)
    object.__setattr__(world, "others", [torch.as_tensor(other) for other in others])
    return world


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (True, [True, True], "bf16"),
        (True, [False, True], "fp32"),
        (False, [True, True], "fp32"),
        (False, [False, False], "fp32"),
    ],
)
@pytest.mark.parametrize("rank", [0, 2])
def test_bf16_is_used_only_if_every_rank_has_it(monkeypatch, caplog, own, others, expected, rank):
    monkeypatch.setattr(precision, "multiplies_fast", lambda dtype, device: own)
    assert agreed_precision(among(rank, *others), "auto") == expected
    assert agreed_precision(among(rank, *others), "fp16") == "fp16"
    unlike = len({own, *others}) > 1
    assert ("fp32 for all" in caplog.text) == (unlike and rank == 0)


@pytest.mark.parametrize("own", list(product([True, False], repeat=2)))
@pytest.mark.parametrize("other", list(product([True, False], repeat=2)))
def test_muon_multiplies_in_bf16_where_every_rank_is_fast_and_rounds_alike(monkeypatch, own, other):
    is_fast, on_tiles = own
    monkeypatch.setattr(precision, "multiplies_fast", lambda dtype, device: is_fast)
    monkeypatch.setattr(library, "runs_on_tiles", lambda matrix: on_tiles)
    alike = is_fast and other[0] and on_tiles == other[1]
    expected = torch.bfloat16 if alike else torch.float32
    assert agreed_muon_dtype(among(1, other), torch.bfloat16) == expected
    assert agreed_muon_dtype(among(1, other), torch.float16) == torch.float32  # on a CPU


def digests_of(facts):
    world = among(0)
    seen = []
    object.__setattr__(world, "gather", lambda tensor: seen.append(tensor) or tensor.unsqueeze(0))
    check_same(world, facts)
    return seen[0]


def test_ranks_with_other_settings_are_named_with_the_settings():
    facts = {"seed": 0, "optim.lr": 0.1, "data.corpus": "abc"}
    other = digests_of(facts | {"optim.lr": 0.2, "data.corpus": "abd"})
    check_same(among(1, digests_of(facts)), facts)
    with pytest.raises(InputError, match=r"^ranks 1, 2 and .* same optim.lr, data.corpus;"):
        check_same(among(0, other, other), facts)
    with pytest.raises(InputError, match=r"^rank 1 and the main"):
        check_same(among(1, other), facts)


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_whose_kernels_did_not_build_are_named_in_one_line(caplog, rank):
    names = ["compiled by Triton", "compiled by Triton", "plain torch", "plain torch"]
    others = [list(name.encode().ljust(256)) for place, name in enumerate(names) if place != rank]
    model = SimpleNamespace(implementation=names[rank])
    report_implementations(among(rank, others[0]), model)  # which computes alike
    assert not caplog.messages
    report_implementations(among(rank, *others), model)
    expected = (
        "ranks 2, 3 of 4: the recurrence is plain torch, on the main rank compiled by Triton; "
        "every step waits for the slowest rank"
    )
    assert caplog.messages == ([expected] if rank == 0 else [])


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOTDIR, InputError), (errno.EACCES, InputError), (errno.ENOSPC, OSError)],
)
def test_a_path_that_cannot_be_used_is_refused_on_every_rank(monkeypatch, ranks, number, expected):
    def fail():
        raise OSError(number, os.strerror(number), "runs/x")

    monkeypatch.setattr(agreement, "_text_from_main", lambda world, text: text)
    with pytest.raises(expected, match="runs/x") as refused:
        run_on_main(World(0, ranks, CPU), fail)
    if expected is InputError:
        assert str(refused.value) == f"runs/x: {os.strerror(number)}"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_that_another_process_holds_ends_every_rank_with_its_own_code(monkeypatch, ranks):
    def fail():
        raise TryAgain("runs/x: in use")

    monkeypatch.setattr(agreement, "_text_from_main", lambda world, text: text)
    with pytest.raises(TryAgain, match="runs/x: in use"):
        run_on_main(World(0, ranks, CPU), fail)
