"""Keys and values of configs that were closed, with the revision that still has them."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from model.errors import InputError

REVISION = "9fba6c80"


class Closed(NamedTuple):
    """A closed key."""

    default: object  # the value that had no effect: a file may still give it
    page: str = ""  # of the study, if there is one


CLOSED = {
    "data.title_weight": Closed(1.0, "experiments/neuron/titles.md"),
    "data.persist": Closed("shard"),
    "model.heads": Closed(4),
    "model.context": Closed(256),
    "model.ngram_length": Closed(6, "experiments/recipe/ngrams.md"),
    "model.ngram_buckets": Closed(16384, "experiments/recipe/ngrams.md"),
    "model.word_buckets": Closed(32768, "experiments/recipe/ngrams.md"),
    "model.orthogonal": Closed(False, "experiments/recipe/README.md"),
    "model.segments": Closed(1),
    "optim.beta1": Closed(0.9),
    "optim.beta2": Closed(0.999),
    "optim.momentum": Closed(0.95, "experiments/recipe/README.md"),
    "optim.by_gate": Closed(False, "experiments/recipe/muon.md"),
    "optim.balance_rows": Closed(False, "experiments/recipe/muon.md"),
    "optim.keep_norms": Closed(False, "experiments/recipe/muon.md"),
    "optim.rest_factor": Closed(1.0, "experiments/recipe/README.md"),
    "optim.decoder_factor": Closed(1.0, "experiments/recipe/levers.md"),
    "train.loss_scale": Closed(65536.0),
    "train.ema_decay": Closed(0.0),
    "parallel.adasum_group": Closed(1),
    "parallel.powersgd_rank": Closed(4, "experiments/scaling/exchange.md"),
    "parallel.powersgd_start": Closed(1000, "experiments/scaling/exchange.md"),
    "evaluate.probe_texts": Closed(1000),
    "evaluate.sample_length": Closed(240),
    "log.every_seconds": Closed(15.0),
    "log.tracker": Closed(None),
}
CLOSED_VALUES = {  # of keys that stay, with the page of the study
    ("model.cell", "mlstm_ngrams"): "experiments/recipe/ngrams.md",
    ("model.cell", "mlstm_words"): "experiments/recipe/ngrams.md",
    ("model.cell", "lstm_weight_norm"): "experiments/recipe/peers.md",
    ("model.cell", "gru_weight_norm"): "experiments/recipe/peers.md",
    ("optim.decay", "cosine"): "",
    ("parallel.compression", "powersgd"): "experiments/scaling/exchange.md",
}


def without_closed(content: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a config file's content without closed keys; InputError if one had an effect."""
    return {
        section: dict(_open_keys(section, keys, place)) if isinstance(keys, dict) else keys
        for section, keys in content.items()
    }


def _open_keys(section: str, keys: dict[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    for key, value in keys.items():
        name = f"{section}.{key}".replace("-", "_")
        _check_value(name, value, f"{place}: {name} = {value!r}")
        if name not in CLOSED:
            yield key, value
        elif value != CLOSED[name].default:
            raise _was_closed(f"{place}: {name} = {value!r}", CLOSED[name].page)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise InputError for a closed option or value on a command line."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--"):
            continue
        if name in CLOSED:
            raise _was_closed(f"--{name}", CLOSED[name].page)
        _check_value(name, value if equals else following, f"--{name} {value or following}")


def _check_value(name: str, value: object, entry: str) -> None:
    page = CLOSED_VALUES.get((name, value)) if isinstance(value, str) else None
    if page is not None:
        raise _was_closed(entry, page)


def _was_closed(entry: str, page: str) -> InputError:
    study = f" (see {page})" if page else ""
    return InputError(f"{entry} was removed{study}; leave it out, or check out revision {REVISION}")
