"""Texts to features: the state of the model after it has read them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from .errors import InputError
from .language_model import LanguageModel, Weights
from .pooling import FeatureKind, Pool
from .ragged import Batch, ragged_batches

FINAL_CELL = FeatureKind()


def final_states(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    batch_size: int = 128,
    block: int = 128,
    skip: int = 0,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (rows, features) batch by batch, longest sequences first.

    sequences: symbols [n] each. rows: indices into them; features: float32 [len(rows), F]; unless
    `kind` says otherwise, F = H, the last layer's cell state after the last byte; raw, without the
    tanh of Radford et al.'s text, as both released codes have it. Independent of `batch_size` and
    of the order of the sequences; memory does not grow with their lengths.
    The first `skip` batches are left out: the caller already has them. weights: what `model.fold`
    returned, where it is kept between calls. `advance` is told, for a progress bar, how many bytes
    have been read since it was called last.
    """
    lengths = [len(sequence) for sequence in sequences]
    with torch.inference_mode():
        weights = weights or model.fold()
        for batch in islice(ragged_batches(lengths, batch_size, block), skip, None):
            yield batch.rows, _walk(model, weights, sequences, batch, kind, advance)


def features_in_order(
    model: LanguageModel,
    sequences: Sequence[np.ndarray],
    *,
    kind: FeatureKind = FINAL_CELL,
    batch_size: int = 128,
    weights: Weights | None = None,
    advance: Callable[[int], object] | None = None,
) -> np.ndarray:
    """Return float32 [N, F], the features of every sequence in the order given.

    The rest is as for `final_states`.
    """
    features = np.zeros((len(sequences), kind.size(model.config)), dtype=np.float32)
    options: dict[str, Any] = {"batch_size": batch_size, "weights": weights, "advance": advance}
    for rows, values in final_states(model, sequences, kind=kind, **options):
        features[rows] = values
    return features


def _walk(
    model: LanguageModel,
    weights: Weights,
    sequences: Sequence[np.ndarray],
    batch: Batch,
    kind: FeatureKind,
    advance: Callable[[int], object] | None,
) -> np.ndarray:
    device = model.embedding.weight.device
    layers, units = kind.layers_of(model.config), kind.units_of(model.config)
    state = model.initial_state(len(batch.rows))
    width = kind.width(model.config)
    pools = [Pool(pooling, len(batch.rows), width, device) for pooling in kind.poolings]
    for start, stop, active in batch.spans:
        rows = batch.rows[:active]
        tokens = np.stack([sequences[row][start:stop] for row in rows]).astype(np.int64)
        # The recurrence returns no cell state but the last, so that pooling reads byte by byte.
        piece = stop - start if kind.poolings == ("last",) else 1
        state = state.narrow(active)
        for part in torch.from_numpy(tokens).to(device).split(piece, dim=1):
            _, state = model.hidden(part, state, weights)
            values = kind.read(state, layers, units)  # [active, width]
            for pool in pools:
                pool.add(values)
        if advance is not None:
            advance(active * (stop - start))
    features = torch.cat([pool.features() for pool in pools], dim=1).cpu().numpy()
    if not np.isfinite(features).all():
        raise InputError(
            "features become NaN or infinite: the model's weights are damaged, or too large for "
            f"products in {str(model.dtype).removeprefix('torch.')}"
        )
    return features
