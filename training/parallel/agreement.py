"""Decisions that all ranks make together."""

import errno
import json
import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist

from mlstm_sentiment.errors import InputError, TimeIsUp
from model.inference.weights import model_digest
from model.layers.language_model import LanguageModel

from .distributed import World, never

log = logging.getLogger(__name__)

_LONGEST_NAME = 256  # bytes of an implementation's name
# Errors about a path that would occur again on another attempt, unlike a full disk.
_PERMANENT = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM, errno.EROFS),
)


def run_on_main(
    world: World, act: Callable[[], object], is_time_up: Callable[[], bool] = never
) -> str:
    """Run `act` on the main rank only; return its result, as text, on every rank.

    An InputError of `act` is raised on every rank, so that none waits for one that has ended. So is
    an OSError about a path that cannot be used. If `act` takes long, it calls `world.barrier`
    between its parts, which restarts the timeout of the other ranks, and says whether one of them
    has no more time (`is_time_up`). A TimeIsUp of `act` is raised on every rank, too.
    """
    if world.size == 1:
        return _result_of(act)
    answer: dict[str, Any] = {}
    if world.is_main:
        try:
            answer = {"result": _result_of(act)}
        except InputError as error:
            answer = {"refusal": str(error)}
        except TimeIsUp:
            answer = {"time_is_up": True}
    answer = json.loads(_text_from_main(world, json.dumps(answer), is_time_up))
    if "time_is_up" in answer:
        raise TimeIsUp
    if "refusal" in answer:
        raise InputError(answer["refusal"])
    return str(answer["result"])


def _result_of(act: Callable[[], object]) -> str:
    """Return the result of `act` as text; InputError for an OSError that would occur again."""
    try:
        return str(act())
    except OSError as error:
        if error.filename is None or error.errno not in _PERMANENT:
            raise
        raise InputError(f"{error.filename}: {error.strerror}") from error


def _text_from_main(world: World, text: str, is_time_up: Callable[[], bool]) -> str:
    """Return the main rank's text, which is ASCII and not empty."""
    content = torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8)
    size = world.broadcast_int(len(content))
    while not size:  # 0 is only a barrier: the main rank is still at work
        size = world.broadcast_int(0, is_time_up())
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
