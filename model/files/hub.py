"""Models on the Hugging Face hub: a repository has the layout of a model directory.

The network is used only for a model that is named hf://owner/name, or pushed (classifiers/push.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.tokenizer import TOKENIZER_FILE
from .layout import CONFIG_FILE, WEIGHTS_FILE

CARD_FILE = "README.md"
IN_CLASSIFIER = "classifier/*"
# The files of a model directory that a repository gets: no run, checkpoint or corpus.
FILES = [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, CARD_FILE, "LICENSE", "SOURCES.md"]


def fetch_from_hub(repository: str) -> Path:
    """Download a model; return its folder, which every `from_pretrained` here reads.

    repository: "owner/name", or "owner/name@revision".
    """
    name, _, revision = repository.partition("@")
    patterns = [*FILES, IN_CLASSIFIER]
    hub = hub_library()
    with refusals(repository):
        folder = hub.snapshot_download(name, revision=revision or None, allow_patterns=patterns)
    return Path(folder)


@contextmanager
def refusals(repository: str) -> Iterator[None]:
    """Turn an error of the hub, or of the network, into an InputError."""
    try:
        yield
    except Exception as error:  # errors of its library and of its HTTP library have no common base
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"hf://{repository}: {type(error).__name__}: {reason}") from error


def hub_library() -> Any:
    """Return the hub's own library; InputError if it is not installed."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError("the hub needs huggingface_hub: pip install huggingface_hub") from error
    return huggingface_hub
