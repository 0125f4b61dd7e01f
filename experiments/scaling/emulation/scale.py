"""Reduce links and bytes of a cluster by one factor, which keeps the seconds."""

from dataclasses import dataclass

from model.errors import InputError
from scaling.step_time import ring_seconds

from .. import readings

# Bytes of a full frame: as tc counts them; on the wire with preamble, checksum and gap; and the
# payload of TCP over IPv4 with timestamps.
FRAME, ON_WIRE, PAYLOAD = 1514, 1538, 1448


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Bytes here are those of the cluster / factor, seconds are those of the cluster x stretch."""

    factor: float = 100.0
    stretch: float = 1.0

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and self.stretch > 0):
            raise InputError("--factor is at least 1, --stretch above zero")

    @property
    def wire_bytes_per_second(self) -> float:
        """The rate of a link that stands for 10 Gb/s Ethernet."""
        return readings.ETHERNET_WIRE / (self.factor * self.stretch)

    @property
    def payload_bytes_per_second(self) -> float:
        """The rate without headers."""
        return self.wire_bytes_per_second * PAYLOAD / ON_WIRE

    @property
    def rate(self) -> str:
        """The limit of a link as tc writes it, without the bytes that tc does not count."""
        return f"{self.wire_bytes_per_second * 8 * FRAME / ON_WIRE / 1000:.0f}kbit"

    def computing_seconds(self) -> float:
        """Return the seconds of computing in a step here."""
        return readings.COMPUTING_SECONDS * self.stretch


def gpus_of(nodes: int) -> int:
    """Return the number of GPUs of so many nodes."""
    return nodes * readings.GPUS_PER_NODE


def correction(nodes: int) -> float:
    """Return the factor by which gradients grow so that links carry what a ring of all GPUs sends.

    In a ring of p = 8 N GPUs a link carries 2 (p - 1) / p S. A ring of N ranks, one on each node,
    sends 2 (N - 1) / N S, which for two nodes is little more than half as much.
    """
    return ring_seconds(1.0, gpus_of(nodes), 1.0) / ring_seconds(1.0, nodes, 1.0)
