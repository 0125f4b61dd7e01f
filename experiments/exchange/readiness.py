"""Measure when each gradient is ready: with autograd per byte, in one node, or in several.

python -m experiments.exchange.readiness --output experiments/exchange/results/readiness.json
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from configs import command
from data_utils.provenance import describe_origin
from model.files.storage import write_json
from model.language_model import LanguageModel, ModelConfig, build_model
from model.recurrence import Backend
from training.objective import Objective

GATES = ("input", "forget", "candidate", "output")
ONE_BY_ONE = "one by one"
KINDS: dict[str, Backend] = {"per byte": "reference", "together": "fused", ONE_BY_ONE: "fused"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the moments of a backward pass at which the leaves have their gradients."""

    output: Path
    """The JSON file to write."""
    hidden_size: int = 1024
    lanes: int = 64
    window: int = 128
    rounds: int = 7
    """Backward passes of each kind, in turns."""


def main() -> None:
    options = command.parse(Options)
    models = {
        name: build_model(ModelConfig(hidden_size=options.hidden_size, backend=backend), seed=0)
        for name, backend in KINDS.items()
    }
    leaves = {name: named(model, split=name == ONE_BY_ONE) for name, model in models.items()}
    passes: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for _ in range(1 + options.rounds):  # the first one compiles and allocates
        for name, model in models.items():
            passes[name].append(backward(model, leaves[name], options))
    result: dict[str, Any] = {name: summary(passes[name][1:], leaves[name]) for name in models}
    for name, rows in result.items():
        print(f"\n{name}: seconds {rows['backward_seconds']:.3f}")
        for row in rows["leaves"]:
            print(f"{row['name']:<24}{row['part']:>7.1%} of bytes ready at {row['ready']:.1%}")
    settings = {key: value for key, value in vars(options).items() if key != "output"}
    write_json(options.output, {**result, "settings": settings, "origin": describe_origin()})


def named(model: LanguageModel, *, split: bool) -> dict[str, torch.Tensor]:
    """Return the tensors that receive gradients, by name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    leaves = model.split_leaves() if split else list(model.parameters())
    for layer in model.layers:
        names |= {
            id(gate): f"w_h, {name}" for gate, name in zip(layer.gate_leaves, GATES, strict=False)
        }
    return {names[id(leaf)].removeprefix("layers.0."): leaf for leaf in leaves}


def backward(
    model: LanguageModel, leaves: dict[str, torch.Tensor], options: Options
) -> dict[str, float]:
    """Return the seconds from the start of a backward pass to each gradient and to the end."""
    tokens = torch.randint(0, 256, (options.lanes, options.window + 1))
    nats, _ = Objective(model)(tokens[:, :-1], tokens[:, 1:], model.initial_state(options.lanes))
    ready: dict[str, float] = {}
    started = time.perf_counter()

    def note(name: str) -> Callable[[torch.Tensor], None]:
        def hook(_: torch.Tensor) -> None:
            ready[name] = time.perf_counter() - started

        return hook

    hooks = [leaf.register_post_accumulate_grad_hook(note(n)) for n, leaf in leaves.items()]
    nats.backward()
    ready[""] = time.perf_counter() - started
    for hook in hooks:
        hook.remove()
    for leaf in leaves.values():
        leaf.grad = None
    return ready


def summary(passes: list[dict[str, float]], leaves: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return the moment of each leaf as a part of backward: medians over passes, in order."""
    total = sum(leaf.numel() for leaf in leaves.values())
    rows = [
        {
            "name": name,
            "shape": list(leaf.shape),
            "part": leaf.numel() / total,
            "ready": statistics.median(ready[name] / ready[""] for ready in passes),
        }
        for name, leaf in leaves.items()
    ]
    return {
        "backward_seconds": statistics.median(ready[""] for ready in passes),
        "leaves": sorted(rows, key=lambda row: row["ready"]),
    }


if __name__ == "__main__":
    command.run(main)
