"""The neuron that a model's own classifier leans on."""

from .classifier import CONFIG_FILE as CLASSIFIER_FILE
from .classifier import FOLDER, Classifier, load_classifier
from .errors import InputError
from .weights import LoadedModel, model_digest


def own_classifier(loaded: LoadedModel, layer: int = -1) -> Classifier:
    """Load the classifier that travels inside a model directory, for its neuron in a layer.

    Raises InputError, which names --neuron, where there is none, it belongs to other weights, or
    another layer than the last is wanted, of which it knows nothing.
    """
    folder = loaded.folder / FOLDER
    if layer not in (-1, loaded.model.config.layers - 1):
        raise InputError(
            f"layer {layer}: a classifier knows the units of the last layer; name one with --neuron"
        )
    if not (folder / CLASSIFIER_FILE).is_file():
        raise InputError(
            f"{loaded.folder}: has no {FOLDER}/ that would say which unit to take; name one with "
            "--neuron (scripts/transfer.py finds it)"
        )
    classifier = load_classifier(folder, loaded.model.config.hidden_size)
    if classifier.model_digest != model_digest(loaded.model):
        raise InputError(
            f"{folder}: was fitted on other weights than {loaded.folder} has; name a unit with "
            "--neuron, or fit it again with scripts/transfer.py"
        )
    return classifier
