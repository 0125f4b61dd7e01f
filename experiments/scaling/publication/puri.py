"""The points of Puri et al.'s scaling figure, and facts about its runs from the same authors.

The 15 points were read from the pixels of figures/distributed_scalability.png of
NVIDIA/sentiment-discovery, which prints no numbers. A GPU has 2.3 pixels, so a reading has an error
of about 0.3 GPUs. The markers at 8 GPUs overlap, and those at 16 are partly hidden.
"""

from model.layers.config import ModelConfig
from scaling.workload import Workload

GPUS = (8, 16, 32, 64, 128)
GPUS_PER_NODE = 8  # DGX-1V
READING_ERROR = 0.3  # GPUs

# Times the speed of one GPU, by the number of GPUs with 256 lanes each.
SCALING: dict[str, tuple[float, ...]] = {
    "ethernet_4096": (7.7, 11.7, 23.5, 45.9, 92.6),
    "infiniband_4096": (7.7, 13.4, 27.4, 55.4, 109.1),
    "infiniband_8192": (7.9, 15.65, 31.3, 61.3, 120.9),
}
SIZES = {name: int(name.rsplit("_", 1)[1]) for name in SCALING}
SMALL, LARGE = "infiniband_4096", "infiniband_8192"

LANES_PER_GPU = 256
WINDOW = 256
TOKENS_PER_GPU = LANES_PER_GPU * WINDOW

# Hours of an epoch of 73,000 steps on 8 GPUs. Their text and their figure (amazon_train_time.png,
# read to half an hour) differ. The model uses those of the text; `explanation` and `rivals` also
# try those of the figure.
HOURS_BY_TEXT, HOURS_BY_FIGURE, STEPS_OF_AN_EPOCH = 17.0, 19.5, 73_000


def computing_seconds(hours: float) -> float:
    """Return the seconds of computing in a step, from the hours of an epoch.

    The point at 8 GPUs gives the part of a step that is computing.
    """
    return hours * 3600 / STEPS_OF_AN_EPOCH * SCALING[SMALL][0] / 8


COMPUTING_SECONDS = computing_seconds(HOURS_BY_TEXT)

ETHERNET_WIRE = 1.25e9  # bytes per second: 10 Gb/s
ETHERNET_GOODPUT = 0.94  # of it, after headers
NVLINK = 60e9  # bytes per second of an all-reduce within a DGX-1V


def workload(size: int) -> Workload:
    """Return the costs of a published model; its parameters agree with theirs to 0.03 %."""
    return Workload.of(ModelConfig(hidden_size=size))


# Of the operations, and so of computing at the same lanes and operations per second.
LARGE_OVER_SMALL = workload(8192).operations_per_token / workload(4096).operations_per_token
