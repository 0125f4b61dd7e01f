"""Models on the Hugging Face hub: a repository has the layout of a model directory.

The network is used only for a model that is named hf://owner/name, or pushed.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import InputError
from ..text.tokenizer import TOKENIZER_FILE
from .card import model_card
from .shipped import CONFIG_FILE, WEIGHTS_FILE
from .storage import read_json, whole_folder

CARD_FILE = "README.md"
MODULES_FILE = "modules.json"
# As sentence-transformers reads it: the class that reads this folder.
MODULE = "mlstm_sentiment.sentence_module.FinalState"
MODULES = [{"idx": 0, "name": "0", "path": "", "type": MODULE}]
CLASSIFIER_FILES = "classifier/*"
RESULTS_FILE = "results.json"  # of scripts/transfer.py, beside the classifier's folder
# The files of a model directory that a repository gets: no run, checkpoint or corpus.
FILES = [CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, CARD_FILE, "LICENSE", "SOURCES.md"]


def push_to_hub(
    name_or_folder: str | Path, repository: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a model with its classifier and a card; return the address.

    repository: "owner/name", created if absent. token: None: the one of `hf auth login`.
    """
    hub = _hub()
    with TemporaryDirectory() as folder:
        write_repository(name_or_folder, Path(folder), repository)
        with _refusals(repository):
            api = hub.HfApi(token=token)
            api.create_repo(repository, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder))


def fetch_from_hub(
    repository: str,
    *,
    revision: str | None = None,
    token: str | None = None,
    cache_folder: str | None = None,
    local_files_only: bool = False,
) -> Path:
    """Download a model; return its folder, which every `from_pretrained` here reads.

    repository: "owner/name", or "owner/name@revision". cache_folder: where downloads are kept, if
    not in the hub's default. local_files_only: use no network.
    """
    name, _, named = repository.partition("@")
    patterns = [*FILES, MODULES_FILE, CLASSIFIER_FILES]
    hub = _hub()
    with _refusals(repository):
        folder = hub.snapshot_download(
            name,
            revision=named or revision,
            token=token,
            cache_dir=cache_folder,
            local_files_only=local_files_only,
            allow_patterns=patterns,
        )
    return Path(folder)


def write_repository(name_or_folder: str | Path, folder: Path, repository: str) -> None:
    """Write the content of a hub repository into a folder; sentence-transformers reads it too. The
    model's own card, if any, is kept. Raises InputError for a damaged model or classifier: it is
    not published.
    """
    from ..classifiers.fitted import find_classifier, load_fitted
    from .weights import load_model

    loaded = load_model(name_or_folder)
    classifier = find_classifier(loaded)
    results = None
    if classifier is not None:
        load_fitted(loaded, classifier, "fit it again with scripts/transfer.py")
        measured = classifier.parent / RESULTS_FILE
        results = read_json(measured) if measured.is_file() else None
    with whole_folder(folder) as partial:
        for name in FILES:
            if (loaded.folder / name).is_file():
                shutil.copy(loaded.folder / name, partial / name)
        if classifier is not None:
            shutil.copytree(classifier, partial / "classifier")
        (partial / MODULES_FILE).write_text(json.dumps(MODULES), encoding="utf-8")
        if not (partial / CARD_FILE).exists():
            card = model_card(read_json(partial / CONFIG_FILE), results, repository)
            (partial / CARD_FILE).write_text(card, encoding="utf-8")


@contextmanager
def _refusals(repository: str) -> Iterator[None]:
    """Turn an error of the hub, or of the network, into an InputError."""
    try:
        yield
    except Exception as error:  # errors of its library and of its HTTP library have no common base
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"hf://{repository}: {type(error).__name__}: {reason}") from error


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError("the hub needs huggingface_hub: pip install huggingface_hub") from error
    return huggingface_hub
