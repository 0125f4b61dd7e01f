"""Texts through a multiplicative LSTM on a CPU: states, bits, and what may come next."""

import math
import reprlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ..errors import InputError, check_choice, checked_whole
from ..text.profiles import checked_texts
from .compiled_model import CompiledModel
from .interface import Reading, TextModel
from .kinds import Pooling, StateName, check_tokens, checked_request
from .library import NUMPY, choose_path
from .numpy_model import NumpyModel
from .request import Clamp, Familiarity, Request, State, excess_of
from .stored import StoredModel, open_model, read_weights

Precision = Literal["exact", "fast"]
_PARTS: dict[Precision, int] = {"exact": 2, "fast": 1}
_MOST_THREADS = 1024
_NATS_PER_BIT = math.log(2)


class Engine:
    """A model that processes texts, on as many threads as asked for; several may share it.

    Nothing but the arguments changes a result: not the other texts, their order, or the threads.
    On models of integers (all shipped ones), not the processor either, unless NumPy computes.

        engine = Engine.load("default")
        reading = engine.read(["so good", "so bad"], pooling=("last", "mean"))
        reading.last.shape  # (2, 1024)
    """

    def __init__(
        self,
        stored: StoredModel,
        precision: Precision = "exact",
        threads: int = 1,
        path: str | None = None,
    ):
        check_choice("precision", precision, get_args(Precision))
        self._stored = stored
        self.folder, self.architecture = stored.folder, stored.architecture
        self.provenance = stored.provenance
        self.tokenizer, self.profile = stored.tokenizer, stored.profile
        self.precision, self.path = precision, choose_path(path)
        self._token_bytes = np.array(list(map(len, stored.tokenizer.spellings)), np.int32)
        self.threads = checked_whole("threads", threads, 1, _MOST_THREADS)
        self._runs: CompiledModel | NumpyModel
        if self.path == NUMPY:
            self._runs = NumpyModel(stored)
        else:
            self._runs = CompiledModel(stored, self.path, _PARTS[precision])

    @classmethod
    def load(
        cls,
        name_or_folder: str | Path = "default",
        *,
        precision: Precision = "exact",
        threads: int = 1,
        path: str | None = None,
    ) -> "Engine":
        """Load a model with its tokenizer and text profile.

        name_or_folder: a shipped model's name, or the directory of a model or a run. precision:
        "exact" rounds what integers are multiplied by to 16 bits, "fast" to 8; models of floats are
        computed in fp32 either way. threads: how many texts' computations run in parallel. path:
        the instructions to use, "amx", "vnni", "avx2", "neon", "plain" or "numpy"; None: the
        fastest that runs here. Raises InputError for files that are missing or damaged, a model of
        another cell, and a path that this machine cannot run.
        """
        return cls(read_weights(open_model(name_or_folder)), precision, threads, path)

    def __repr__(self) -> str:
        size, layers = self.architecture.hidden_size, self.architecture.layers
        return (
            f"Engine({str(self.folder)!r}: mLSTM of {size:,} units in {layers} "
            f"{'layer' if layers == 1 else 'layers'}, {self.precision}, path {self.path})"
        )

    def digest(self) -> str:
        """Return a digest of the architecture and weights; a classifier belongs to one."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return self._stored.digest()

    def __getstate__(self) -> dict[str, Any]:
        return {"stored": self._stored, "precision": self.precision, "threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the path is chosen for the new machine

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens [n] of a text, cleaned and framed by the model's text profile."""
        return self.tokenizer.encode(self.profile.encode(text))

    def read(
        self,
        texts: Sequence[str] | Sequence[np.ndarray],
        pooling: Sequence[Pooling] = ("last", "mean"),
        *,
        state: StateName = "hidden",
        layers: Sequence[int] | None = None,
        tanh: bool = False,
        units: Sequence[int] | None = None,
        bits: bool = False,
        familiarity: Familiarity | None = None,
        initial: State | None = None,
        final: bool = False,
        clamp: Clamp | None = None,
        threads: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Reading:
        """Process N texts, and return what was asked for.

        texts: strings, which are encoded, or arrays of tokens [n], which may be empty. pooling: of
        "last", "mean", "max" and "min", those wanted; a text without tokens has zeros.
        state: which states are pooled and shown. layers: whose states, numbered from 0; None: the
        last one's. tanh: take it of every state first. units: whose states to return for every
        token; None: none. bits: also return what predicting each token costs; takes about half as
        long again. familiarity: also return which texts cost more than that, for half of the time
        that bits add; the answer is the same with bits and without. initial: the states before the
        texts, [N, L, H]; None: zero. final: also return the states after them. clamp: holds a unit
        at a value. threads: None: the engine's. advance: called in this thread with the number of
        tokens processed since its last call; an error that it raises, like Ctrl-C, ends the
        computation within milliseconds.

        Equal texts are computed once. Raises InputError for what the model does not have.
        """
        sequences = self._sequences(texts)
        H, L = self.architecture.hidden_size, self.architecture.layers
        chosen, picked = checked_request(self.architecture, pooling, state, layers, units)
        rows, distinct = (
            _distinct(sequences) if initial is None else ([*range(len(sequences))], sequences)
        )
        request = Request(
            distinct,
            (L, H),
            pooling=pooling,
            cell=state == "cell",
            tanh=tanh,
            layers=chosen,
            units=picked,
            bits=bits or (familiarity is not None and self.path == NUMPY),
            familiarity=None if bits or self.path == NUMPY else familiarity,
            token_bytes=self._token_bytes,
            clamp=self._checked(clamp),
            initial=None if initial is None else self._checked_state(initial, len(sequences)),
            final=final,
        )
        workers = self.threads if threads is None else checked_whole("threads", threads, 1)
        self._runs.run(request, workers, advance)
        costs, excess = list[np.ndarray](), request.excess
        if request.nats is not None:
            costs = _cut(
                request.nats / np.float32(_NATS_PER_BIT), request.offsets, range(len(distinct))
            )
            if familiarity is not None:
                sizes = [self._token_bytes[each] for each in distinct]
                excess = excess_of(costs, sizes, familiarity)
        states = request.unit_states
        if states is not None:
            states = states.reshape(len(states), len(chosen) * len(request.units))
        return Reading(
            lengths=np.array(list(map(len, sequences)), np.int64),
            unit_states=None if states is None else _cut(states, request.offsets, rows),
            token_bits=[costs[row] for row in rows] if bits else None,
            bits=np.array([costs[row].sum(dtype=np.float64) for row in rows]) if bits else None,
            unfamiliar=None if excess is None else excess[rows] > 0,
            state=None if request.final is None else State(*(a[rows] for a in request.final)),
            **{
                name: values.reshape(len(values), len(chosen) * H)[rows]
                for name, values in request.pooled.items()
            },
        )

    def initial_state(self, texts: int = 1, clamp: Clamp | None = None) -> State:
        """Return the state before any text, [texts, L, H]: zeros, but for a clamped unit."""
        shape = (texts, self.architecture.layers, self.architecture.hidden_size)
        state = State(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
        if (clamp := self._checked(clamp)) is not None:
            for part, value in zip(state, (clamp.hidden, clamp.cell), strict=True):
                if value is not None:
                    part[:, clamp.layer, clamp.unit] = value
        return state

    def advance(
        self, state: State, tokens: Sequence[np.ndarray], clamp: Clamp | None = None
    ) -> State:
        """Return the state after more tokens: an array [n] for each of the state's texts.

        state = engine.advance(engine.initial_state(), [engine.encode("so good")])
        """
        reading = self.read(tokens, (), initial=state, final=True, clamp=clamp)
        assert reading.state is not None
        return reading.state

    def next_token(self, state: State) -> np.ndarray:
        """Return the logits of the token after a state of B texts: float32 [B, V]."""
        return self._runs.logits(self._checked_state(state, len(state.h)).h[:, -1])

    def _sequences(self, texts: Sequence[Any]) -> list[np.ndarray]:
        if not all(isinstance(text, np.ndarray) for text in texts):
            return [self.encode(text) for text in checked_texts(texts)]
        check_tokens(texts, self.architecture)
        if len({tokens.dtype for tokens in texts}) > 1:  # else equal bytes mean equal tokens
            return [tokens.astype(np.int32) for tokens in texts]
        return list(texts)

    def _checked(self, clamp: Clamp | None) -> Clamp | None:
        if clamp is None:
            return None
        self.architecture.check_clamp(clamp.unit, clamp.layer)
        layer = int(clamp.layer) % self.architecture.layers
        return Clamp(unit=int(clamp.unit), layer=layer, cell=clamp.cell, hidden=clamp.hidden)

    def _checked_state(self, state: State, texts: int) -> State:
        shape = (texts, self.architecture.layers, self.architecture.hidden_size)
        for part in state:
            if part.shape != shape:
                raise InputError(f"the state is {list(part.shape)}; it must be {list(shape)}")
        return State(*(np.ascontiguousarray(part, np.float32) for part in state))


def as_model(
    model: str | Path | TextModel, precision: Precision | None = None, threads: int | None = None
) -> TextModel:
    """Return a model as it is, or load an engine by its name or folder.

    precision, threads: as for `Engine.load`; None: "exact" and 1. Raises InputError for a precision
    or threads that a given model does not have.
    """
    if isinstance(model, str | Path):
        threads = 1 if threads is None else threads
        return Engine.load(model, precision=precision or "exact", threads=threads)
    if not hasattr(model, "next_token"):
        raise InputError(f"model is {reprlib.repr(model)}; it must be a name or a path, or a model")
    if precision not in (None, model.precision):
        check_choice("precision", precision, get_args(Precision))
        raise InputError(
            f"precision {precision}: the model that is given has {model.precision}; load it again"
        )
    if threads not in (None, getattr(model, "threads", 1)):
        raise InputError(f"threads {threads}: the model that is given has its own; load it again")
    return model


def _cut(values: np.ndarray, offsets: np.ndarray, rows: Sequence[int]) -> list[np.ndarray]:
    """Return the values of each row's tokens, from those of all tokens end to end."""
    return [values[offsets[row] : offsets[row + 1]] for row in rows]


def _distinct(sequences: list[np.ndarray]) -> tuple[list[int], list[np.ndarray]]:
    """Return the place of each sequence among the distinct ones, and these."""
    distinct = {tokens.tobytes(): tokens for tokens in sequences}
    places = {content: place for place, content in enumerate(distinct)}
    return [places[tokens.tobytes()] for tokens in sequences], list(distinct.values())
