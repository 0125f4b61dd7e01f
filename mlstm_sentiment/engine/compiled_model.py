"""A model in the compiled engine: its weights made ready for one path, and texts through them."""

import ctypes
import math
import threading
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np

from . import library
from .kinds import POOLINGS
from .request import Request
from .stored import StoredMatrix, StoredModel

LANES = 128  # texts processed at the same time: so many share each load of the weights
SECONDS_BETWEEN_LOOKS = 0.05  # at the keyboard and the progress
_POOLED = ("last", "mean", "highest", "lowest")  # a job's names of POOLINGS
# Arrays of a request that a job has by the same names.
_ARRAYS = ("tokens", "offsets", "order", "unit_states", "nats", "excess", "token_bytes")
_FREE = math.nan  # a unit's value that is not held


class CompiledModel:
    """Runs requests on one path of the library; threads may share it."""

    def __init__(self, stored: StoredModel, path: str, parts: int, lanes: int = LANES):
        found = library.engine_library()
        assert found is not None, "choose_path returns numpy where there is no library"
        self._library: Any = found
        self._lanes = lanes
        self._decoder = (stored.decoder, stored.decoder_bias)  # read when it is first needed
        self._decoding = threading.Lock()
        self._vocabulary = stored.architecture.resolved_vocabulary_size
        fields = fields_of(stored, _address, parts, path)
        layers = [_structure(library.StoredLayer, layer) for layer in fields["layer"]]
        fields["layer"] = (library.StoredLayer * len(layers))(*layers)
        described = _structure(library.StoredModel, fields)
        self._model = self._library.engine_prepare(ctypes.byref(described))
        if not self._model:
            raise MemoryError("no memory for the model's weights")

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.engine_free(self._model)
            self._model = None

    def run(self, request: Request, threads: int, advance: Callable[[int], object] | None) -> None:
        """Fill the request's results; threads take one text after the other.

        A thread that waits in C does not see Ctrl-C, so all work is done by others, and the calling
        one waits for them.
        """
        if request.nats is not None or request.excess is not None:
            self._prepare_decoder()
        following, stop, done = ctypes.c_int64(0), ctypes.c_int32(0), ctypes.c_int64(0)
        threads = max(1, min(threads, request.texts))
        share = -(-request.texts // threads)
        job = self._job(request, following, stop, done, max(1, min(self._lanes, share)))
        results: list[int] = []

        def work() -> None:
            results.append(self._library.engine_read(self._model, ctypes.byref(job)))

        workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        reported = 0
        try:
            for worker in workers:
                worker.start()
            while running := [worker for worker in workers if worker.is_alive()]:
                running[0].join(SECONDS_BETWEEN_LOOKS)
                if advance is not None and (now := done.value) > reported:
                    advance(now - reported)
                    reported = now
            if advance is not None and done.value > reported:
                advance(done.value - reported)
        finally:  # also after Ctrl-C, or an error of `advance`
            stop.value = 1
            for worker in workers:
                if worker.ident is not None:
                    worker.join()
        if -2 in results:
            raise MemoryError("no memory for the texts' states")

    def logits(self, h: np.ndarray) -> np.ndarray:
        """Return float32 [B, V] for the last layer's h, float32 [B, H]."""
        self._prepare_decoder()
        h = np.ascontiguousarray(h, np.float32)
        result = np.empty((len(h), self._vocabulary), np.float32)
        if not self._library.engine_logits(self._model, len(h), _address(h), _address(result)):
            raise MemoryError("no memory for the logits")
        return result

    def _prepare_decoder(self) -> None:
        with self._decoding:
            if not self._library.engine_prepare_decoder(self._model):
                raise MemoryError("no memory for the decoder's weights")

    def _job(self, request: Request, following: Any, stop: Any, done: Any, lanes: int) -> Any:
        chosen, units = (np.array(each, np.int64) for each in (request.layers, request.units))
        arrays: dict[str, np.ndarray | None] = {name: getattr(request, name) for name in _ARRAYS}
        arrays |= zip(_POOLED, map(request.pooled.get, POOLINGS), strict=True)
        arrays |= zip(("first_h", "first_c"), request.initial or (None, None), strict=True)
        arrays |= zip(("final_h", "final_c"), request.final or (None, None), strict=True)
        job = library.Job(
            texts=request.texts,
            next=ctypes.pointer(following),
            stop=ctypes.pointer(stop),
            done=ctypes.pointer(done),
            lanes=lanes,
            cell=request.cell,
            squash=request.tanh,
            chosen=_address(chosen),
            choices=len(chosen),
            units=_address(units),
            unit_count=len(units),
            clamp_layer=-1,
            **{name: _address(array) for name, array in arrays.items()},
        )
        job.kept = (chosen, units)  # the job holds their addresses
        if request.familiarity is not None:
            job.bits_per_byte, job.allowed_bits, job.margin = astuple(request.familiarity)
        if (clamp := request.clamp) is not None:
            job.clamp_layer, job.clamp_unit = clamp.layer, clamp.unit
            job.clamp_cell = _FREE if clamp.cell is None else clamp.cell
            job.clamp_hidden = _FREE if clamp.hidden is None else clamp.hidden
        return job


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


def fields_of(
    stored: StoredModel, put: Callable[[np.ndarray | None], Any], parts: int, path: str
) -> dict[str, Any]:
    """Return the fields of engine.h's StoredModel. put: returns what stands for an array."""

    def matrix(each: StoredMatrix) -> dict[str, Any]:
        arrays = {name: put(getattr(each, name)) for name in ("data", "scale", "gain")}
        return {**arrays, "rows": len(each.data), "columns": each.columns, "bits": each.bits}

    sizes = stored.architecture
    return {
        "hidden": sizes.hidden_size,
        "embedding": sizes.embedding_size,
        "vocabulary": sizes.resolved_vocabulary_size,
        "layers": len(stored.layers),
        "layer": [
            {**{name: matrix(each) for name, each in layer.matrices.items()}, "b": put(layer.b)}
            for layer in stored.layers
        ],
        "embed": matrix(stored.embedding),
        "decoder": matrix(stored.decoder),
        "decoder_bias": put(stored.decoder_bias),
        "parts": parts,
        "path": library.PATHS.index(path),
    }


def _structure(kind: type[ctypes.Structure], fields: dict[str, Any]) -> Any:
    matrices = {n: library.StoredMatrix(**v) for n, v in fields.items() if isinstance(v, dict)}
    return kind(**fields | matrices)
