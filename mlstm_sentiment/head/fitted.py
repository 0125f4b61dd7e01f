"""Finds the head of a model on disk and loads it, if it belongs to the model."""

import hashlib
import json
from pathlib import Path

from ..engine.interface import TextModel
from ..errors import InputError
from .head import Head
from .head_files import CONFIG_FILE, FOLDER, TRANSFER_FOLDER, load_head, parts_of, read_description

# Fitting needs labelled texts and the repository; an installed package has only its command.
HOW_TO_FIT = (
    "To fit one: transfer.py of the repository, or mlstm-sentiment featurize and scikit-learn"
)


def find_classifier(loaded: TextModel, path: str | Path | None = None) -> Path | None:
    """Return the folder of a classifier, None if there is none.

    path: the folder itself, the output folder of transfer.py or finetune.py, or a run directory.
    None: `classifier/` of the model, else that in `transfer/` of its run directory, or of the model
    directory if it has no run.
    """
    if path is not None:
        return classifier_in(Path(path))
    run = loaded.folder.parent if loaded.folder.name == "model" else loaded.folder
    return _first([loaded.folder / FOLDER, run / TRANSFER_FOLDER / FOLDER])


def classifier_in(folder: Path) -> Path | None:
    """Return the classifier in a folder: itself, or that of an output folder or a run directory."""
    inside = ("", FOLDER, f"model/{FOLDER}", f"{TRANSFER_FOLDER}/{FOLDER}")
    return _first([folder / name for name in inside])


def _first(places: list[Path]) -> Path | None:
    return next((place for place in places if (place / CONFIG_FILE).is_file()), None)


def shown_classifier(loaded: TextModel, path: str | Path | None = None) -> Path | None:
    """Return what `find_classifier` does; InputError if the folder `path` holds none."""
    folder = find_classifier(loaded, path)
    if folder is None and path is not None:
        raise InputError(
            f"{path}: no classifier in it ({FOLDER}/{CONFIG_FILE}); name the folder of "
            "one, or leave out --classifier"
        )
    return folder


def fitted_digest(loaded: TextModel, head: Head) -> str:
    """Return a digest of a model's weights and its head."""
    arrays, description = parts_of(head)
    digest = hashlib.sha256(loaded.digest().encode())
    digest.update(json.dumps(description, sort_keys=True, default=str).encode())
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def load_fitted(loaded: TextModel, folder: Path, fix: str) -> Head:
    """Load a head; InputError, which ends with `fix`, if it belongs to another model."""
    description = read_description(folder / CONFIG_FILE)
    check_model(loaded, description.get("model_digest"), folder, fix)
    return load_head(folder, loaded.architecture.hidden_size)


def check_model(loaded: TextModel, digest: object, source: object, fix: str) -> None:
    """Raise InputError, which ends with `fix`, if a classifier's digest is of another model."""
    if digest != loaded.digest():
        raise InputError(f"{source}: was fitted on another model, not on {loaded.folder}; {fix}")


def own_classifier(loaded: TextModel, layer: int = -1, path: str | Path | None = None) -> Head:
    """Load the classifier of a model, or the one in `path`, for its neuron in a layer.

    path: as for `find_classifier`. Raises InputError, which names --neuron, if there is none, if
    it belongs to other weights, or if the layer is not the last, the only one that a classifier
    knows.
    """
    loaded.architecture.check_unit(0, layer)
    if layer not in (-1, loaded.architecture.layers - 1):
        raise InputError(
            f"layer {layer}: a classifier covers only the last layer; name a unit with --neuron"
        )
    folder = shown_classifier(loaded, path)
    if folder is None:
        raise InputError(
            f"{loaded.folder}: has no {FOLDER}/, which says which unit to use; name a unit "
            f"with --neuron. {HOW_TO_FIT}"
        )
    fix = f"name a unit with --neuron, or fit it again. {HOW_TO_FIT}"
    return load_fitted(loaded, folder, fix)
