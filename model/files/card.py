"""The card of a model on the Hugging Face hub, from the model's own files."""

import json
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ..text.tokenizer import BYTES


def model_card(
    description: Mapping[str, Any], results: Mapping[str, Any] | None, repository: str
) -> str:
    """Return a card; the licence is for its owner to add.

    description: config.json. results: results.json of a transfer, if any.
    repository: "owner/name".
    """
    architecture = description["architecture"]
    kind = description["tokenizer"]
    level = "byte-level" if kind == BYTES.kind else f"SentencePiece ({kind})"
    provenance = json.dumps(description.get("provenance", {}), indent=2)
    index = model_index(description, results, repository.rpartition("/")[2])
    return f"""---
library_name: mlstm_sentiment
pipeline_tag: feature-extraction
tags: [sentiment-neuron, mlstm]
{index}---

A {level} {architecture["cell"]} language model of {architecture["layers"]} x \
{architecture["hidden_size"]} units; it reads text by the profile `{description["text_profile"]}`.

```python
from mlstm_sentiment import SentimentFeaturizer

featurizer = SentimentFeaturizer.from_pretrained("hf://{repository}")
features = featurizer.transform(["Five stars, no regrets."])
```

Where it comes from:

```json
{provenance}
```
"""


def model_index(
    description: Mapping[str, Any], results: Mapping[str, Any] | None, name: str
) -> str:
    """Return the line of the card's head with the results, "" if there are none.

    It is JSON, which is valid YAML.
    """
    found = []
    bits = description.get("provenance", {}).get("best_valid_bits_per_character")
    if bits is not None:
        metric = {"type": "bits_per_character", "value": round(bits, 4)}
        found.append(_result("text-generation", "its corpus", "validation", metric))
    if results is not None:
        measured = results.get("threshold", results)  # of the classifier as it is published
        metric = {"type": "accuracy", "value": round(measured["test_accuracy"], 4)}
        found.append(_result("text-classification", _test_file(results), "test", metric))
    return f"model-index: {json.dumps([{'name': name, 'results': found}])}\n" if found else ""


def _result(task: str, dataset: str, split: str, metric: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "task": {"type": task},
        "dataset": {"name": dataset, "type": "text", "split": split},
        "metrics": [metric],
    }


def _test_file(results: Mapping[str, Any]) -> str:
    """Return the --test file of a command."""
    command = results.get("origin", {}).get("command", "")
    try:
        words = shlex.split(command)
    except ValueError:  # of an earlier version, which quoted nothing
        words = command.split()
    for word, after in pairwise([*words, ""]):
        if word == "--test":
            return after
        if word.startswith("--test="):
            return word.partition("=")[2]
    return "a test set"
