"""Lanes divided among ranks in proportion to the user's numbers, or to measured speed."""

from collections.abc import Sequence

_HYSTERESIS = 0.05  # lanes are divided again if that saves more than this fraction of a step


def apportion(items: int, shares: Sequence[float]) -> list[int]:
    """Divide whole items in proportion, by largest remainders; none is left over."""
    total = sum(shares)
    exact = [items * share / total for share in shares]
    counts = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda rank: counts[rank] - exact[rank])
    for rank in by_remainder[: items - sum(counts)]:
        counts[rank] += 1
    return counts


def rebalanced_shares(
    speeds: Sequence[float], counts: Sequence[int], lanes: int
) -> tuple[float, ...] | None:
    """Return shares in proportion to measured speed; None if they would save little.

    counts: the lanes that each rank has now. A rank that has none keeps none: its speed is unknown.
    """
    shares = tuple(speed if count else 0.0 for speed, count in zip(speeds, counts, strict=True))
    if not sum(shares):
        return None
    now = max(count / share for count, share in zip(counts, shares, strict=True) if share)
    return shares if lanes / sum(shares) < (1 - _HYSTERESIS) * now else None
