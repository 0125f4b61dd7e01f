"""Model directories on the Hugging Face hub, whose layout they have: a folder is a repository.

Nothing here is called unless asked for by name: loading a model never looks on a network.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.tokenizer import BYTES, TOKENIZER_FILE
from .shipped import CONFIG_FILE
from .storage import read_json, write_atomically
from .weights import WEIGHTS_FILE, load_model

CARD_FILE = "README.md"
LICENCE_FILE = "LICENSE"
# What a repository takes of a model directory: no run, no checkpoint, no corpus beside it.
FILES = [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, CARD_FILE, LICENCE_FILE]
FILES += ["classifier/*.json", "classifier/*.safetensors"]


def push_to_hub(
    name_or_folder: str | Path, repository: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a model directory, with a card where it has none; return its address.

    repository: "owner/name", made where it is absent. token: absent, as `hf auth login` left it.
    """
    folder = load_model(name_or_folder).folder  # what is damaged is not published
    api = _hub().HfApi(token=token)
    write_card(folder)
    api.create_repo(repository, private=private, exist_ok=True)
    commit = api.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=FILES)
    return str(commit)


def fetch_from_hub(
    repository: str, *, revision: str | None = None, token: str | None = None
) -> Path:
    """Download a model, and return the folder that every `from_pretrained` here reads."""
    return Path(
        _hub().snapshot_download(repository, revision=revision, token=token, allow_patterns=FILES)
    )


def write_card(folder: Path) -> None:
    """Describe a model directory in README.md, as the hub shows it; one that exists is kept."""
    path = folder / CARD_FILE
    if path.exists():
        return
    text = model_card(read_json(folder / CONFIG_FILE))
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def model_card(description: Mapping[str, Any]) -> str:
    """Return a card made of what config.json says; the licence is for its owner to add."""
    architecture = description["architecture"]
    kind = description["tokenizer"]
    level = "byte-level" if kind == BYTES.kind else f"SentencePiece ({kind})"
    provenance = json.dumps(description.get("provenance", {}), indent=2)
    return f"""---
library_name: mlstm_sentiment
pipeline_tag: feature-extraction
tags:
- sentiment-neuron
- mlstm
---

A {level} {architecture["cell"]} language model of {architecture["layers"]} x \
{architecture["hidden_size"]} units; it reads text by the profile `{description["text_profile"]}`.

```python
from mlstm_sentiment import SentimentFeaturizer
from mlstm_sentiment.hub import fetch_from_hub

featurizer = SentimentFeaturizer.from_pretrained(fetch_from_hub("owner/name"))
features = featurizer.transform(["Five stars, no regrets."])
```

Where it comes from:

```json
{provenance}
```
"""


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError("the hub needs huggingface_hub: pip install huggingface_hub") from error
    return huggingface_hub
