"""Heads on disk, in the folder of their model: arrays as safetensors, the rest as JSON."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..bounds import Probability, fill
from ..engine.interface import TextModel
from ..engine.kinds import Pooling, StateName, check_poolings
from ..engine.request import Familiarity
from ..errors import InputError
from ..files.shipped import CLASSIFIER_FILE as CONFIG_FILE
from ..files.storage import check_format_version, read_json
from ..files.tensors import as_floats, read_arrays, read_floats, write_arrays
from ..files.writer import make_folder, write_json
from .head import Head, HeadUnit, checked_between
from .steps import STEPS, Step, step_of

FORMAT_VERSION = 8
WEIGHTS_FILE = "classifier.safetensors"
AREAS_FILE = "areas.safetensors"
CLASSIFIER_FILES = (WEIGHTS_FILE, CONFIG_FILE, AREAS_FILE)
FOLDER = "classifier"  # inside a model directory: the one that belongs to the model
TRANSFER_FOLDER = "transfer"  # inside a run directory: where the README's commands write results

# Fitting needs labelled texts and the repository; an installed package has only its command.
HOW_TO_FIT = (
    "To fit one: transfer.py of the repository, or mlstm-sentiment featurize and scikit-learn"
)


@dataclass(frozen=True)
class _FeaturesDescription:
    """The features of a head, as `classifier.json` describes them."""

    state: StateName
    pooling: tuple[Pooling, ...]

    def __post_init__(self) -> None:
        check_poolings(self.pooling)


@dataclass(frozen=True)
class _HeadDescription:
    """What `classifier.json` says of a head."""

    OTHER_KEYS: ClassVar = True
    classes: tuple[str, ...]
    several_labels: bool
    features: _FeaturesDescription
    steps: list[Any]
    thresholds: tuple[Probability, ...]
    unsure: tuple[Probability, Probability] | None
    familiarity: Familiarity | None
    neuron: HeadUnit
    model_digest: str
    learned: tuple[str, ...] = ()


def save_head(folder: str | Path, head: Head, origin: Mapping[str, Any] | None = None) -> None:
    """Write a head; each file is replaced whole. origin: how it was made, stored unchanged.

    folder: `classifier/` of a model directory, or any other for `--classifier`. Raises InputError
    for a head that does not say which model it is for.

    >>> save_head("mine", SentimentClassifier.from_pretrained().fitted)
    >>> SentimentClassifier("default", classifier="mine")("so good")["label"]
    'positive'
    """
    folder = Path(folder)
    if not head.model_digest:
        raise InputError(
            f"{folder}: the head does not say which model it is for; give from_sklearn the "
            "featurizer, or the model_digest"
        )
    arrays, description = parts_of(head)
    make_folder(folder)
    write_arrays(folder / WEIGHTS_FILE, arrays)
    description = {
        "format_version": FORMAT_VERSION,
        **description,
        _ARRAYS: _digest_of(arrays),  # the other file is written first
        **({"learned": sorted(head.learned)} if head.learned else {}),  # in no page
    }
    if origin is not None:
        description["origin"] = dict(origin)
    write_json(folder / CONFIG_FILE, description, "part of a folder")


def parts_of(head: Head) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a head's arrays, named by the number and field of their step, and all else as JSON."""
    arrays = {
        f"{number}.{field}": array
        for number, step in enumerate(head.steps)
        for field, array in step.arrays().items()
    }
    known = head.familiarity
    return arrays, {
        "classes": list(head.classes),
        "several_labels": head.several_labels,
        "features": {"state": head.state, "pooling": list(head.pooling)},
        "steps": [step.describe() for step in head.steps],
        "thresholds": list(head.thresholds),
        "unsure": head.doubt and list(head.doubt),
        "familiarity": known
        and {"bits_per_character": known.bits_per_character, "bits": known.bits},
        "neuron": asdict(head.own_unit),
        "model_digest": head.model_digest,
    }


def _digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def read_description(path: Path) -> dict[str, Any]:
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    if (version := description["format_version"]) < FORMAT_VERSION:
        raise InputError(
            f"{path}: format {version} is older than {FORMAT_VERSION}; fit it again with "
            "scripts/transfer.py in another folder, or convert it with revision 94c10db0"
        )
    return description


def load_head(folder: Path, hidden_size: int, loaded: TextModel | None = None) -> Head:
    """Read a head for a model of `hidden_size` units; InputError if it cannot be read.

    loaded: the model, if the head must have been fitted on it.
    """
    content = read_description(folder / CONFIG_FILE)
    if loaded is not None:
        check_model(loaded, content.get("model_digest"), folder)
    place = f"{folder / CONFIG_FILE}: not a description of a head"
    try:
        described = fill(_HeadDescription, content, place)
        head = Head(
            classes=described.classes,
            steps=_steps(folder / WEIGHTS_FILE, described.steps, content.get(_ARRAYS)),
            model_digest=described.model_digest,
            state=described.features.state,
            pooling=described.features.pooling,
            several_labels=described.several_labels,
            thresholds=described.thresholds,
            doubt=described.unsure and checked_between(described.unsure),
            familiarity=described.familiarity,
            unit=described.neuron,
            learned=frozenset(described.learned),
        )
    except InputError as error:
        is_placed = str(error).startswith(str(folder))
        raise InputError(str(error) if is_placed else f"{place}: {error}") from error
    if head.units != hidden_size:
        raise InputError(f"{place}: it takes {head.units} units; the model has {hidden_size}")
    return head


_ARRAYS = "arrays_sha256"
_INTEGER_FIELDS = {field for step in STEPS.values() for field in step.DTYPES}


def _steps(weights: Path, steps: Sequence[Any], digest: str | None) -> tuple[Step, ...]:
    """Return the steps of a file with their arrays; InputError for a tensor of none of them.

    digest: of the arrays; None if it was not written. Raises InputError for other arrays.
    """
    stored = read_arrays(weights)
    arrays: list[dict[str, np.ndarray]] = [{} for _ in steps]
    names = {str(number): each for number, each in enumerate(arrays)}
    for name, array in stored.items():
        number, _, field = name.partition(".")
        if number not in names:
            raise InputError(f"{weights}: tensor {name} belongs to none of {len(steps)} steps")
        is_whole = field in _INTEGER_FIELDS
        names[number][field] = array if is_whole else as_floats(weights, name, array)
    pairs = zip(steps, arrays, strict=True)
    found = tuple(step_of(*each, f"step {number}") for number, each in enumerate(pairs))
    if digest is not None and digest != _digest_of(stored):
        raise InputError(
            f"{weights}: is of another classifier than {CONFIG_FILE}; writing it was interrupted: "
            "write it again"
        )
    return found


def find_classifier(loaded: TextModel, path: str | Path | None = None) -> Path | None:
    """Return the folder of a classifier, None if there is none.

    path: the folder itself, the output folder of transfer.py or finetune.py, or a run directory.
    None: `classifier/` of the model, else that in `transfer/` of its run directory, or of the model
    directory if it has no run. Raises InputError if the folder `path` has none.
    """
    if path is not None:
        if (folder := classifier_in(Path(path))) is None:
            raise InputError(
                f"{path}: no classifier in it ({FOLDER}/{CONFIG_FILE}); name the folder of "
                "one, or leave out --classifier"
            )
        return folder
    run = loaded.folder.parent if loaded.folder.name == "model" else loaded.folder
    return _first([loaded.folder / FOLDER, run / TRANSFER_FOLDER / FOLDER])


def classifier_in(folder: Path) -> Path | None:
    """Return the classifier in a folder: itself, or that of an output folder or a run directory."""
    inside = ("", FOLDER, f"model/{FOLDER}", f"{TRANSFER_FOLDER}/{FOLDER}")
    return _first([folder / name for name in inside])


def _first(places: list[Path]) -> Path | None:
    return next((place for place in places if (place / CONFIG_FILE).is_file()), None)


def fitted_digest(loaded: TextModel, head: Head) -> str:
    arrays, description = parts_of(head)
    words = json.dumps(description, sort_keys=True, default=str)
    parts = loaded.digest(), words, _digest_of(arrays)
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def check_model(loaded: TextModel, digest: object, source: object) -> None:
    """Raise InputError if a classifier's digest is of another model."""
    if digest != loaded.digest():
        raise InputError(
            f"{source}: was fitted on another model, not on {loaded.folder}; name that model, move "
            f"the classifier away, or fit one on this. {HOW_TO_FIT}"
        )


def load_classifier(loaded: TextModel, path: str | Path | None = None) -> Head | None:
    """Load the classifier of a model, or the one in `path`; None if the model has none.

    path: as for `find_classifier`. Raises InputError if it belongs to another model.
    """
    folder = find_classifier(loaded, path)
    if folder is None:
        return None
    return load_head(folder, loaded.architecture.hidden_size, loaded)


def needed_classifier(
    loaded: TextModel,
    path: str | Path | None = None,
    instead: str = "use the shipped model `default`, which has one",
) -> Head:
    """Return `load_classifier`; InputError, which says what to do `instead`, if there is none."""
    classifier = load_classifier(loaded, path)
    if classifier is None:
        raise InputError(
            f"{loaded.folder}: no classifier in it ({FOLDER}/{CONFIG_FILE}); name the folder of "
            f"one with --classifier, or {instead}. {HOW_TO_FIT}"
        )
    return classifier


def covers(loaded: TextModel, layer: int) -> bool:
    """Whether a layer is the last, the only one that a classifier knows."""
    return layer in (-1, loaded.architecture.layers - 1)


def own_classifier(loaded: TextModel, layer: int = -1, path: str | Path | None = None) -> Head:
    """Load the classifier of a model, or the one in `path`, for its neuron in a layer.

    path: as for `find_classifier`. Raises InputError, which names --neuron, if there is none, or if
    the layer is not the last; also if it belongs to another model.
    """
    loaded.architecture.check_unit(0, layer)
    if not covers(loaded, layer):
        raise InputError(
            f"layer {layer}: a classifier covers only the last layer; name a unit with --neuron"
        )
    return needed_classifier(loaded, path, "name a unit with --neuron")


_AREAS, _LIMITS = "areas", "limits"
CHANCE = 0.5  # the AUC of a unit that does not separate the classes


def save_areas(folder: Path, areas: np.ndarray, limits: np.ndarray) -> None:
    """Write the AUC and the limit of each unit of a model, [H], into its classifier's folder."""
    arrays = {_AREAS: areas, _LIMITS: limits}
    named = {name: np.asarray(each, np.float32) for name, each in arrays.items()}
    write_arrays(folder / AREAS_FILE, named)


def load_areas(folder: Path | None, hidden_size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Read the AUC and the limit of each unit, float32 [H]; None if the folder has no such file."""
    path = None if folder is None else folder / AREAS_FILE
    if path is None or not path.is_file():
        return None
    floats = read_floats(path, dict.fromkeys((_AREAS, _LIMITS), (hidden_size,)))
    return floats[_AREAS], floats[_LIMITS]
