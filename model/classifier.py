"""A fitted classifier on a model's features: weights as safetensors, the rest as JSON."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .errors import InputError
from .storage import check_format_version, read_json, write_json
from .weights import check_shapes, load_tensors, save_tensors

FORMAT_VERSION = 1
WEIGHTS_FILE = "classifier.safetensors"
CONFIG_FILE = "classifier.json"
FOLDER = "classifier"  # inside a model directory: the one that travels with the model


@dataclass(frozen=True)
class Classifier:
    """Logistic regression between two classes, on the final cell state of one model."""

    coefficients: np.ndarray  # float32 [H]
    intercept: float
    classes: tuple[str, str]  # the negative one, the positive one
    neuron: int  # the unit of largest weight
    polarity: int  # 1 where a high value of the unit means the positive class, else -1
    model_digest: str  # of the model whose features it reads

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the probability of the positive class for features [N, H]: float64 [N]."""
        odds = features.astype(np.float64) @ self.coefficients + self.intercept
        return 1 / (1 + np.exp(-odds.clip(-700, 700)))  # where exp neither overflows nor is zero


def save_classifier(folder: Path, classifier: Classifier) -> None:
    """Write a classifier; each file is replaced whole."""
    folder.mkdir(parents=True, exist_ok=True)
    coefficients = torch.from_numpy(classifier.coefficients.astype(np.float32))
    intercept = torch.tensor([classifier.intercept], dtype=torch.float32)
    save_tensors(folder / WEIGHTS_FILE, {"coefficients": coefficients, "intercept": intercept})
    description = {
        "format_version": FORMAT_VERSION,
        "classes": list(classifier.classes),
        "state": "cell",
        "model_digest": classifier.model_digest,
        "neuron": {"index": classifier.neuron, "polarity": classifier.polarity},
    }
    write_json(folder / CONFIG_FILE, description)


def load_classifier(folder: Path, hidden_size: int) -> Classifier:
    """Read a classifier for features of `hidden_size`; InputError where it is none or damaged."""
    path = folder / CONFIG_FILE
    description = read_json(path)
    check_format_version(description, FORMAT_VERSION, path)
    weights = folder / WEIGHTS_FILE
    check_shapes(weights, {"coefficients": (hidden_size,), "intercept": (1,)})
    tensors = load_tensors(weights)
    try:
        negative, positive = description["classes"]
        neuron = description["neuron"]
        return Classifier(
            tensors["coefficients"].numpy(),
            float(tensors["intercept"]),
            (str(negative), str(positive)),
            int(neuron["index"]),
            int(neuron["polarity"]),
            str(description["model_digest"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a description of two classes ({error})") from error
