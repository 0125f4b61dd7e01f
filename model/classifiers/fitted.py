"""Which classifier goes with a model: found on disk and loaded, whatever its kind."""

from collections.abc import Callable
from pathlib import Path

from ..errors import InputError
from ..files.storage import check_format_version, read_json
from ..files.weights import LoadedModel, model_digest
from .classifier import (
    CONFIG_FILE,
    FOLDER,
    FORMAT_VERSION,
    TRANSFER_FOLDER,
    Classifier,
    load_classifier,
)
from .fine_tuned import FORMAT_VERSION as FINE_TUNED_VERSION
from .fine_tuned import FineTuned, load_fine_tuned
from .stars import FORMAT_VERSION as STARS_VERSION
from .stars import StarsClassifier, load_stars

Fitted = Classifier | FineTuned | StarsClassifier
LOADERS: dict[int, Callable[[Path, int], Fitted]] = {
    FINE_TUNED_VERSION: load_fine_tuned,
    STARS_VERSION: load_stars,
}


def find_classifier(loaded: LoadedModel, given: str | Path | None = None) -> Path | None:
    """Return the folder of a classifier, None where there is none.

    given: that folder, the one that scripts/transfer.py wrote, or the run that it lies in. Absent:
    the one that travels with the model, else what was transferred into the folder of its run.
    """
    if given is not None:
        run = Path(given)
        places = [run, run / FOLDER]
    else:
        run = loaded.folder.parent
        places = [loaded.folder / FOLDER]
    places.append(run / TRANSFER_FOLDER / FOLDER)
    return next((place for place in places if (place / CONFIG_FILE).is_file()), None)


def load_fitted(loaded: LoadedModel, folder: Path, mend: str) -> Fitted:
    """Load a classifier of this very model; InputError, with how to mend it, for another's."""
    path = folder / CONFIG_FILE
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    if description.get("model_digest") != model_digest(loaded.model):
        raise InputError(f"{folder}: was fitted on another model than {loaded.folder}; {mend}")
    load = LOADERS.get(description["format_version"], load_classifier)  # a regression
    return load(folder, loaded.model.config.hidden_size)


def own_classifier(loaded: LoadedModel, layer: int = -1) -> Fitted:
    """Load the classifier that lies with a model, for its neuron in a layer.

    Raises InputError, which names --neuron, where there is none, it belongs to other weights, or
    another layer than the last is wanted, of which it knows nothing.
    """
    if layer not in (-1, loaded.model.config.layers - 1):
        raise InputError(
            f"layer {layer}: a classifier knows the units of the last layer; name one with --neuron"
        )
    folder = find_classifier(loaded)
    if folder is None:
        raise InputError(
            f"{loaded.folder}: has no {FOLDER}/ that would say which unit to take; name one with "
            "--neuron (scripts/transfer.py finds it)"
        )
    mend = "name a unit with --neuron, or fit it again with scripts/transfer.py"
    return load_fitted(loaded, folder, mend)
