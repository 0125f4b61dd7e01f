"""A model in NumPy, where nothing is compiled: in fp32, several times slower."""

import time
from collections.abc import Callable

import numpy as np

from .compiled_model import SECONDS_BETWEEN_LOOKS
from .request import Request
from .stored import StoredMatrix, StoredModel

_LANES = 256
# How the states after all tokens become one; the mean is computed in float64.
_POOLS: dict[str, Callable[..., np.ndarray]] = {
    "last": lambda before, now: now,
    "max": np.maximum,
    "min": np.minimum,
}


class NumpyModel:
    """Runs requests as `CompiledModel` does, in one thread, with products in fp32."""

    def __init__(self, stored: StoredModel):
        self._embedding = stored.embedding.floats()
        self._layers = [
            ({name: _normed(matrix).T for name, matrix in layer.matrices.items()}, layer.b)
            for layer in stored.layers
        ]
        self._decoder, self._decoder_bias = stored.decoder.floats().T, stored.decoder_bias
        self._H = stored.architecture.hidden_size

    def run(self, request: Request, threads: int, advance: Callable[[int], object] | None) -> None:
        """Fill the request's results; threads: ignored."""
        for start in range(0, request.texts, _LANES):
            self._run_batch(request, request.order[start : start + _LANES], advance)

    def logits(self, h: np.ndarray) -> np.ndarray:
        return np.asarray(h, np.float32) @ self._decoder + self._decoder_bias

    def _run_batch(
        self, request: Request, rows: np.ndarray, advance: Callable[[int], object] | None
    ) -> None:
        lengths = np.diff(request.offsets)[rows]
        state = np.zeros((2, len(self._layers), len(rows), self._H), np.float32)  # h and c
        if request.initial is not None:
            for part, initial in zip(state, request.initial, strict=True):
                part[:] = initial[rows].swapaxes(0, 1)
        means = request.pooled.get("mean")
        sums = np.zeros((len(rows), len(request.layers), self._H))
        steps, done, looked = int(lengths.max(initial=0)), 0, time.monotonic()
        for step in range(steps):
            active = int(np.searchsorted(-lengths, -step, side="left"))  # the longest come first
            places = request.offsets[rows[:active]] + step
            tokens = request.tokens[places]
            if request.nats is not None:
                request.nats[places] = _nats(self.logits(state[0, -1, :active]), tokens)
            self._step(tokens, state[:, :, :active])
            if (clamp := request.clamp) is not None:
                for part, value in zip(state, (clamp.hidden, clamp.cell), strict=True):
                    if value is not None:
                        part[clamp.layer, :active, clamp.unit] = value
            shown = state[int(request.cell), list(request.layers), :active].swapaxes(0, 1)
            shown = np.tanh(shown) if request.tanh else shown
            sums[:active] += shown
            for name, choose in _POOLS.items():
                if (pooled := request.pooled.get(name)) is not None:
                    chosen = rows[:active]
                    pooled[chosen] = choose(pooled[chosen], shown) if step else shown
            if request.unit_states is not None:
                request.unit_states[places] = shown[:, :, list(request.units)]
            done += active
            is_due = step + 1 == steps or time.monotonic() - looked >= SECONDS_BETWEEN_LOOKS
            if advance is not None and is_due:  # not after every token: it may take long
                advance(done)
                done, looked = 0, time.monotonic()
        if means is not None:
            means[rows] = sums / np.maximum(lengths, 1)[:, None, None]
        if request.final is not None:
            for part, final in zip(state, request.final, strict=True):
                final[rows] = part.swapaxes(0, 1)

    def _step(self, tokens: np.ndarray, state: np.ndarray) -> None:
        """Advance all layers in place: state [2, L, active, H]."""
        x = self._embedding[tokens]
        for index, (w, b) in enumerate(self._layers):
            h, c = state[:, index]
            m = (h @ w["mh"]) * (x @ w["mx"])
            i, f, u, o = np.split(m @ w["h"] + x @ w["x"] + b, 4, axis=1)
            c[:] = _sigmoid(f) * c + _sigmoid(i) * np.tanh(u)
            h[:] = _sigmoid(o) * np.tanh(c)
            x = h


def _normed(matrix: StoredMatrix) -> np.ndarray:
    """Return a matrix with its weight norm, if it has one; rows of zeros stay zero."""
    if matrix.gain is None:
        return matrix.floats()
    rows = matrix.data if matrix.scale is None else matrix.integers().astype(np.float32)
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    factors = np.divide(matrix.gain, norms, out=np.zeros(len(norms)), where=norms > 0)
    return rows * factors.astype(np.float32)[:, None]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + np.float32(0.5)


def _nats(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    top = logits.max(axis=1, keepdims=True)
    total = np.exp(logits - top).sum(axis=1, dtype=np.float64)
    return np.log(total) + (top - np.take_along_axis(logits, tokens[:, None], axis=1))[:, 0]
