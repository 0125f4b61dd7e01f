"""Count the memory of a model in training, tensor by tensor."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data_utils.lanes import Window
from model.fused.cpu import runs_compiled
from model.language_model import LanguageModel, ModelConfig, build_model
from training.feeding import Batch, as_batch
from training.objective import Objective
from training.optimizers.optim import OptimConfig
from training.parallel.distributed import World
from training.precision import DTYPES, Precision
from training.trainer import TrainConfig, Trainer

CPU = torch.device("cpu")


def footprint(
    config: ModelConfig, precision: Precision, *, lanes: int, window: int
) -> dict[str, int]:
    """Return bytes on a CPU with Adam, by their purpose.

    Activations are what autograd keeps from forward for backward. They grow by the same number of
    bytes with every lane: those of two lanes minus those of one, times `lanes`.
    """
    model = build_model(config, seed=0, compute_dtype=DTYPES[precision])
    trainer = Trainer(
        model,
        optim=OptimConfig(),
        train=TrainConfig(precision=precision, loss_scale=1.0),  # no step overflows
        world=World(0, 1, CPU),
        lanes=1,
        steps=1,
        seed=0,
    )
    trainer.train(random_batch(1, window))
    states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
    one, two = (kept_bytes(model, n, window) for n in (1, 2))
    return {
        "weights": sum(parameter.nbytes for parameter in model.parameters()),
        "weights_as_multiplied": copied_bytes(model),
        "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
        "optimizer": sum(tensor.nbytes for state in states for tensor in tensors_in(state)),
        "activations": (two - one) * lanes,
    }


def recurrence_of(config: ModelConfig, precision: Precision) -> str:
    """Name what computes the recurrence here; not every CPU multiplies in every precision."""
    H = config.hidden_size
    compiled = runs_compiled(torch.zeros(H, H, dtype=DTYPES[precision]))
    return "the compiled recurrence" if compiled else "plain torch"


def random_batch(lanes: int, window: int) -> Batch:
    """Return a batch of random bytes."""
    tokens = np.random.default_rng(0).integers(0, 256, (lanes, window + 1), dtype=np.uint8)
    lengths, count = np.full(lanes, window), lanes * window
    return as_batch(Window(tokens, lengths, np.full(lanes, True), count, count), CPU)


def kept_bytes(model: LanguageModel, lanes: int, window: int) -> int:
    """Return the bytes that autograd keeps of a forward pass over a window."""
    batch = random_batch(lanes, window)
    state = model.initial_state(lanes).each(torch.clone)
    with counting() as sizes:
        held = Objective(model)(
            batch.inputs, batch.targets, state
        )  # kept alive, so that no address is used twice
        total = sum(sizes.values())
    del held
    return total


def copied_bytes(model: LanguageModel) -> int:
    """Return the bytes of the weights as products read them, and those that weight norm keeps."""
    with counting() as sizes:
        folded = model.fold()
    for tensor in tensors_in(folded):
        add(sizes, tensor)
    for parameter in model.parameters():
        sizes.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


@contextmanager
def counting() -> Iterator[dict[int, int]]:
    """Yield bytes by address, a dictionary that collects the storages that autograd keeps."""
    sizes: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: add(sizes, t), lambda t: t):
        yield sizes


def add(sizes: dict[int, int], tensor: Tensor) -> Tensor:
    """Count the storage of a tensor once, by the largest tensor in it."""
    address = tensor.untyped_storage().data_ptr()
    sizes[address] = max(sizes.get(address, 0), tensor.numel() * tensor.element_size())
    return tensor


def tensors_in(content: Any) -> Iterator[Tensor]:
    """Yield the tensors of nested tuples, lists and mappings."""
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, Mapping):
        yield from tensors_in(list(content.values()))
    elif isinstance(content, tuple | list):
        for item in content:
            yield from tensors_in(item)
