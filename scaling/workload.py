"""What a model costs: its parameters, the operations of a token, the memory of training it.

Memory is derived from the training code of one mLSTM layer. The bytes per unit, lane and byte of
the window are those of model/kernels/triton/graphs.py: a graph keeps its memory from window to
window, so activations and their gradients coexist.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from mlstm_sentiment.errors import InputError
from model.layers.config import ModelConfig
from model.layers.language_model import empty_model, product_weights
from model.state import DTYPES
from training.optimizers import muon

_FORWARD_AND_BACKWARD = 6  # operations per weight and token: 2 forward, 4 backward
FP32 = 4  # bytes
PRECISION_BYTES = {precision: dtype.itemsize for precision, dtype in DTYPES.items()}
_OPTIMIZER_BYTES = 8  # Adam's two moments in fp32, for each parameter
# Values per unit, lane and byte in the products' dtype. Forward: h, W_mh h, four gates; backward:
# five for dx, one each for d(W_mh h) and m, and the gradient of h from the decoder. c is in fp32.
_IN_PRODUCT_DTYPE = 6 + 7 + 1
_IN_FP32 = 1
OF_GRAPHS = 2  # in the products' dtype: h and its gradient once more, since a graph has its own
# Bytes that an update reads and writes for each parameter: the weight, its gradient and two
# moments, then weight norm and the products' copy, forward and backward.
_UPDATE_BYTES = 68
_RUNTIME_BYTES = 0.5e9  # CUDA's context and kernels, declared


@dataclass(frozen=True)
class Workload:
    """The sizes of a model that decide its time."""

    parameters: int
    product_weights: int  # in the matrices that every token is multiplied by
    recurrent_weights: int  # in those that a pass reads again for every token of a lane
    update_operations: float = 0.0  # of the optimizer's products

    @classmethod
    @cache
    def of(
        cls, config: ModelConfig, optimizer: str = "adam", precision: str = "fp32"
    ) -> "Workload":
        """Count a model of mLSTM layers and its update; InputError for another cell."""
        if config.cell != "mlstm":
            raise InputError(f"model.cell is {config.cell}; the performance model knows only mlstm")
        model = empty_model(config)
        matrices = product_weights(model)
        recurrent = [m for name, m in matrices.items() if name.endswith((".w_mh", ".w_h"))]
        of_layers = [m.shape for name, m in matrices.items() if name.startswith("layers.")]
        dtype = DTYPES[precision]
        update = sum(muon.operations(rows, columns, dtype) for rows, columns in of_layers)
        return cls(
            _numbers(model.parameters()),
            _numbers(matrices.values()),
            _numbers(recurrent),
            update if optimizer == "muon" else 0.0,
        )

    @property
    def operations_per_token(self) -> int:
        """Operations of a training step for each token.

        This counts what the published code computes: it projects every token's input. Our code
        looks tokens up in a table, which saves 1.5 % at 4,096 units.
        """
        return _FORWARD_AND_BACKWARD * self.product_weights

    def update_seconds(self, products: float, bytes_per_second: float) -> float:
        """Return the seconds of an update at a rate of products and a speed of memory."""
        return self.update_operations / products + (
            self.parameters * _UPDATE_BYTES / bytes_per_second
        )


def _numbers(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


@dataclass(frozen=True)
class Memory:
    """Bytes, by what they are for."""

    weights: float  # fp32, and as the products read them
    gradients: float
    optimizer: float
    passing: float  # temporary: weight gradients before they are fp32, or the optimiser's copies
    exchange: float
    activations: float
    runtime: float

    @property
    def total(self) -> float:
        return sum(vars(self).values())


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """Computes the memory that training a model needs."""

    model: ModelConfig
    window: int
    precision: str = "fp16"
    lane_groups: int = 1
    gradient_bytes: float = 2.0
    """Bytes of a parameter's gradient as it is sent; 0 without an exchange."""

    def __post_init__(self) -> None:
        if self.model.cell != "mlstm" or self.model.layers != 1:
            raise InputError("the memory model knows only one mLSTM layer")

    @property
    def bytes_per_lane(self) -> float:
        H, s = self.model.hidden_size, PRECISION_BYTES[self.precision]
        units = H * ((_IN_PRODUCT_DTYPE + OF_GRAPHS) * s + _IN_FP32 * FP32)
        return self.window * (units + self.model.resolved_vocabulary_size * s)  # of the table

    def needed(self, lanes: int) -> Memory:
        """Return the memory at the peak with this many lanes."""
        P, H = Workload.of(self.model).parameters, self.model.hidden_size
        s = PRECISION_BYTES[self.precision]
        normed = FP32 if self.model.weight_norm else 0
        exchanged = self.gradient_bytes > 0
        return Memory(
            weights=P * (FP32 + s + normed),
            gradients=P * FP32 + (16 * H * H if exchanged else 0),  # joined of the four gates'
            optimizer=P * _OPTIMIZER_BYTES,
            passing=P * max(s + normed, FP32),  # the latter a root of the second moments
            exchange=P * self.gradient_bytes if self.gradient_bytes < FP32 else 0,
            activations=self.bytes_per_lane * -(-lanes // self.lane_groups),
            runtime=_RUNTIME_BYTES,
        )

    def largest_lanes(self, memory_bytes: float, headroom: float) -> int:
        """Return the most lanes that leave this fraction of the memory free; 0 if none fit."""
        left = memory_bytes * (1 - headroom) - self.needed(0).total
        return max(int(left / self.bytes_per_lane) * self.lane_groups, 0)
