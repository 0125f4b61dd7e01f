"""The unit with the largest weight in a model's own classifier."""

from .classifier import FOLDER, Classifier
from .errors import InputError
from .fitted import find_classifier, load_fitted
from .weights import LoadedModel


def own_classifier(loaded: LoadedModel, layer: int = -1) -> Classifier:
    """Load the classifier that lies with a model, for its neuron in a layer.

    Raises InputError, which names --neuron, where there is none, it belongs to other weights, or
    another layer than the last is wanted, of which it knows nothing, or it is fine-tuned heads.
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
    found = load_fitted(loaded, folder, mend)
    if not isinstance(found, Classifier):
        raise InputError(
            f"{folder}: fine-tuned heads, which lean on no single unit; name one with --neuron"
        )
    return found
