"""GPU use in training: memory, fraction of the peak, and the bound set by the recurrence."""

import logging
import re
from typing import NamedTuple

import torch

from model.layers.language_model import LanguageModel, product_weights

from .parallel.distributed import World

log = logging.getLogger(__name__)

_PASSES = 3  # products with every matrix: forward, backward through time, weight gradients


class Peak(NamedTuple):
    """What a GPU can do at most, by NVIDIA's data sheets (dense, without sparsity)."""

    operations: float  # per second, in 16 bits on tensor cores
    operations_in_fp32: float  # per second, without TF32
    bytes: float  # per second, of memory
    memory_bytes: float
    link_bytes: float  # per second and direction: NVLink; over PCIe a third of it, assumed

    def in_dtype(self, dtype: torch.dtype) -> float:
        """Return the operations per second of products in a dtype."""
        return self.operations if dtype.itemsize == 2 else self.operations_in_fp32


# By words in the name that torch gives a GPU; the first that matches counts.
PEAKS = {
    "GB300": Peak(2500e12, 80e12, 8.0e12, 288e9, 900e9),
    "B300": Peak(2250e12, 75e12, 8.0e12, 288e9, 900e9),
    "GB200": Peak(2500e12, 80e12, 8.0e12, 186e9, 900e9),
    "B200": Peak(2250e12, 75e12, 8.0e12, 180e9, 900e9),
    "H200": Peak(989e12, 67e12, 4.8e12, 141e9, 450e9),
    "GH200": Peak(989e12, 67e12, 4.0e12, 96e9, 450e9),
    "H100 NVL": Peak(835e12, 60e12, 3.9e12, 94e9, 300e9),
    "H100 PCIe": Peak(756e12, 51e12, 2.0e12, 80e9, 20e9),
    "H100": Peak(989e12, 67e12, 3.35e12, 80e9, 450e9),
    "H20": Peak(148e12, 44e12, 4.0e12, 96e9, 450e9),
    "A100.*40GB": Peak(312e12, 19.5e12, 1.555e12, 40e9, 300e9),
    "A100": Peak(312e12, 19.5e12, 2.0e12, 80e9, 300e9),
    "A30": Peak(165e12, 10.3e12, 0.933e12, 24e9, 100e9),
    "RTX PRO 6000": Peak(504e12, 126e12, 1.792e12, 96e9, 20e9),
    "RTX 5090": Peak(209e12, 104.8e12, 1.792e12, 32e9, 20e9),
    "RTX 4090": Peak(165e12, 82.6e12, 1.008e12, 24e9, 10e9),
    "RTX A6000": Peak(155e12, 38.7e12, 0.768e12, 48e9, 56e9),
    "L40S": Peak(362e12, 91.6e12, 0.864e12, 48e9, 10e9),
    "L40": Peak(181e12, 90.5e12, 0.864e12, 48e9, 10e9),
    "L4": Peak(121e12, 30.3e12, 0.3e12, 24e9, 10e9),
    "A10G?": Peak(125e12, 31.2e12, 0.6e12, 24e9, 10e9),
    "V100": Peak(125e12, 15.7e12, 0.9e12, 16e9, 150e9),
    "T4": Peak(65e12, 8.1e12, 0.32e12, 16e9, 5e9),
}


_EIGHTHS = {"1": 1, "2": 2, "3": 4, "4": 4, "7": 8}  # of the memory, by a MIG slice's sevenths


def peak_of(name: str) -> Peak | None:
    """Return the peak of a GPU by its name; None if it is not listed.

    A MIG slice, such as "NVIDIA A100-SXM4-80GB MIG 3g.40gb", has its sevenths of the processors and
    its eighths of the memory's speed.

    >>> peak_of("NVIDIA A100-SXM4-80GB MIG 1g.10gb").bytes == PEAKS["A100"].bytes / 8
    True
    """
    gpu, _, of_slice = name.partition(" MIG ")
    peak = next((p for words, p in PEAKS.items() if re.search(rf"\b{words}\b", gpu)), None)
    slices = re.match(r"([1-47])g\.", of_slice)
    if peak is None or not of_slice:
        return peak
    if slices is None:
        return None
    processors = int(slices[1]) / 7
    eighths = _EIGHTHS[slices[1]] / 8
    return Peak(
        peak.operations * processors,
        peak.operations_in_fp32 * processors,
        peak.bytes * eighths,
        peak.memory_bytes * eighths,
        peak.link_bytes,
    )


def limit_seconds(weights: int, lanes: float, dtype: torch.dtype, peak: Peak) -> float:
    """Return the fewest seconds that training takes for one token of each lane.

    weights: of the recurrent matrices. Each of the two passes through time must read all of them
    for every token, and multiply them by all lanes; the weight gradients are products alone.
    """
    products = 2 * weights * lanes / peak.in_dtype(dtype)
    reading = weights * dtype.itemsize / peak.bytes
    return 2 * max(products, reading) + products


class Utilization:
    """Adds to the rows of a run on GPUs: peak memory, MFU, and the fraction of the limit."""

    def __init__(
        self, world: World, model: LanguageModel, own_lanes: int, characters_per_token: float = 1.0
    ):
        """Find what all GPUs can do together. All ranks call it together."""
        self.world, self.characters_per_token = world, characters_per_token
        # Operations of training: two for each matrix weight in each of the three products.
        self.operations_per_token = operations_per_token(model)
        name, config = torch.cuda.get_device_name(world.device), model.config
        peak, own = peak_of(name), [0.0, 0.0]  # operations and tokens per second
        if peak is None:
            log.warning("%s: its peak is not known, so rows have neither mfu nor a limit", name)
        else:
            own[0] = peak.in_dtype(model.dtype)
            if config.cell == "mlstm" and own_lanes:
                weights = 5 * config.layers * config.hidden_size**2
                own[1] = own_lanes / limit_seconds(weights, own_lanes, model.dtype, peak)
        ranks = world.gather(torch.tensor(own, dtype=torch.float64, device=world.device))
        # The sums over all ranks; 0 if one of them is not known.
        sums = (ranks.sum(0) * (ranks > 0).all(0)).tolist()
        self.operations_per_second, self.tokens_per_second = sums

    def row(self, characters_per_second: float) -> dict[str, float]:
        """Return what to add to a row of metrics. All ranks call it together."""
        own = torch.tensor(
            torch.cuda.max_memory_allocated(self.world.device), device=self.world.device
        )
        torch.cuda.reset_peak_memory_stats(self.world.device)
        row: dict[str, float] = {"peak_memory_bytes": int(self.world.gather(own).max())}
        tokens = characters_per_second / self.characters_per_token
        if self.operations_per_second:
            row["mfu"] = tokens * self.operations_per_token / self.operations_per_second
        if self.tokens_per_second:
            row["fraction_of_limit"] = tokens / self.tokens_per_second
        return row


def operations_per_token(model: LanguageModel) -> float:
    """Return the operations of a training step for each token, as the papers count them."""
    return 2.0 * _PASSES * sum(matrix.numel() for matrix in product_weights(model).values())
