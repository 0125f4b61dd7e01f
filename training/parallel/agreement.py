"""Decisions that all ranks take together, so that none decides alone."""

import json
import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b

import torch
import torch.distributed as dist

from model.errors import InputError
from model.files.weights import model_digest
from model.fused.tiles.mlstm import runs_on_tiles
from model.layers.config import TrainingPrecision
from model.layers.language_model import LanguageModel

from ..precision import has_fast_bf16
from .distributed import World

log = logging.getLogger(__name__)


def through_main(world: World, act: Callable[[], object]) -> str:
    """Let the main rank act; return its result, as text, on every rank.

    Its InputError is raised on every rank, so that none waits for one that has ended. Where acting
    takes long, `act` calls `world.meet` between its parts: each time, the timeout of the others
    begins anew.
    """
    if world.size == 1:
        return str(act())
    answer = {}
    if world.is_main:
        try:
            answer = {"result": str(act())}
        except InputError as error:
            answer = {"refusal": str(error)}
    answer = json.loads(_text_from_main(world, json.dumps(answer)))
    if "refusal" in answer:
        raise InputError(answer["refusal"])
    return str(answer["result"])


def _text_from_main(world: World, text: str) -> str:
    """Return the main rank's text, which is ASCII and not empty."""
    content = torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8)
    size = world.from_main(len(content))
    while not size:  # the main rank has met the others, and is still at work
        size = world.from_main(0)
    buffer = content.to(world.device) if world.is_main else content.new_empty(size).to(world.device)
    dist.broadcast(buffer, src=0)
    return bytes(buffer.tolist()).decode("ascii")


def agreed_precision(world: World, precision: TrainingPrecision) -> TrainingPrecision:
    """Resolve `auto` to one dtype on all ranks: bf16 if each multiplies it fast, else fp32."""
    if precision != "auto":
        return precision
    own = torch.tensor(has_fast_bf16(world.device), device=world.device)
    fast = [bool(answer) for answer in world.gather(own)]
    if all(fast):
        return "bf16"
    if any(fast) and world.is_main:
        slow = [rank for rank, is_fast in enumerate(fast) if not is_fast]
        log.warning("train.precision auto: fp32 for all, bf16 is slow on %s", _ranks(slow))
    return "fp32"


def agreed_muon_dtype(world: World, compute_dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of Muon's products, the same on every rank: otherwise weights drift apart.

    compute_dtype: of the training's products. Muon's are in bf16 if those are, if every rank
    multiplies it fast, and if all or none do so on tiles, which round at other places; else in
    fp32.
    """
    if compute_dtype != torch.bfloat16:
        return torch.float32
    on_tiles = runs_on_tiles(torch.empty(0, 0, dtype=torch.bfloat16, device=world.device))
    own = torch.tensor([has_fast_bf16(world.device), on_tiles], device=world.device)
    fast, tiles = world.gather(own).unbind(1)  # bool [ranks] each
    agree = bool(fast.all() and (tiles == tiles[0]).all())
    return torch.bfloat16 if agree else torch.float32


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
        ranks = _ranks(different.any(1).nonzero().flatten().tolist())
        raise InputError(
            f"{ranks} and the main rank do not have the same {', '.join(names)}; start all ranks "
            "with the same command, and give all machines the same files"
        )


def check_same_weights(world: World, model: LanguageModel) -> None:
    """Raise InputError, on every rank, unless all have the same weights in the same dtype."""
    if world.size > 1:
        check_same(world, {"weights": model_digest(model)})


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
