"""How a cluster is reduced: link and bytes by one factor, so that seconds stay what they are."""

from dataclasses import dataclass

from model.errors import InputError
from scaling.step_time import ring_seconds

from .. import readings

# Bytes of a full frame: as tc counts it; on the wire, with preamble, checksum and gap; and what of
# it TCP carries, over IPv4 with timestamps.
FRAME, ON_WIRE, PAYLOAD = 1514, 1538, 1448


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Seconds here are `stretch` times those of the cluster; bytes are 1 / factor of its bytes."""

    factor: float = 100.0
    stretch: float = 1.0

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and self.stretch > 0):
            raise InputError("--factor is at least 1, --stretch above zero")

    @property
    def wire_bytes_per_second(self) -> float:
        """Of a link here that stands for 10 Gb/s Ethernet."""
        return readings.ETHERNET_WIRE / (self.factor * self.stretch)

    @property
    def payload_bytes_per_second(self) -> float:
        """What of it is left after headers."""
        return self.wire_bytes_per_second * PAYLOAD / ON_WIRE

    @property
    def rate(self) -> str:
        """The limit of a link as tc writes it, less what tc does not count."""
        return f"{self.wire_bytes_per_second * 8 * FRAME / ON_WIRE / 1000:.0f}kbit"

    def computing_seconds(self) -> float:
        """Return those of a step here."""
        return readings.COMPUTING_SECONDS * self.stretch

    def reduced(self, size: float) -> float:
        """Return so many bytes, or numbers, of the cluster as they are here."""
        return size / self.factor


def gpus_of(nodes: int) -> int:
    """Return the GPUs of so many nodes."""
    return nodes * readings.GPUS_PER_NODE


def correction(nodes: int) -> float:
    """Return by what gradients grow so that a ring of nodes loads a link as one of all GPUs does.

    A link of the latter carries 2 (p - 1) / p S, p = 8 N; a ring of one rank a node alone would
    send 2 (N - 1) / N S: for two nodes little more than half of it.
    """
    return ring_seconds(1.0, gpus_of(nodes), 1.0) / ring_seconds(1.0, nodes, 1.0)
