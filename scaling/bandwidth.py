"""Bandwidths by message size: small messages do not reach the bandwidth of large ones."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BandwidthTable:
    """B of a ring all-reduce, t = 2 (p - 1) / p S / B, measured for some sizes S."""

    sizes: tuple[float, ...]
    """Bytes, rising."""
    bytes_per_second: tuple[float, ...]

    def at(self, size: float) -> float:
        """Return B for `size` bytes, interpolated in logarithms between measured sizes.

        A message below the smallest size takes as long as that size; one above the largest size
        is as fast as that size.
        """
        least, slowest = self.sizes[0], self.bytes_per_second[0]
        if size < least:
            return slowest * (size / least if size > 0 else 1.0)
        known = np.log(self.sizes), np.log(self.bytes_per_second)
        return float(np.exp(np.interp(np.log(size), *known)))


Bandwidth = float | BandwidthTable


def bandwidth_at(bandwidth: Bandwidth, size: float) -> float:
    """Return the bandwidth for a message of `size` bytes."""
    return bandwidth.at(size) if isinstance(bandwidth, BandwidthTable) else bandwidth


def slowest(*bandwidths: Bandwidth) -> Bandwidth:
    """Return the bandwidth that is lowest for large messages."""
    return min(bandwidths, key=lambda bandwidth: bandwidth_at(bandwidth, float("inf")))
