"""Small corpora and models that many tests share."""

import errno
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    # Before anything imports Triton, torch.compile for one: its own functions read it then.
    os.environ["TRITON_INTERPRET"] = "1"

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what it puts into the background so; the tests' processes would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # As nohup starts it; to the processes of the tests a handler is the default again.
    signal.signal(signal.SIGHUP, lambda *_: None)

from data_utils.synthetic import synthetic_reviews
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import Split, encode_split
from mlstm_sentiment.text.subwords import SubwordTokenizer, train_vocabulary
from mlstm_sentiment.text.tokenizer import BYTES, Tokenizer
from model.kernels import memory_pool
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, build_model
from tests.support.runs import ROOT

# No deadline: on a loaded machine, an example may take a second. long: for whoever looks for more.
settings.register_profile("default", deadline=None)
settings.register_profile("long", deadline=None, max_examples=20_000)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest tests first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Leave out of every later collection of garbage what has been imported: it stays."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Two workers run the suite on two cores; a product over 3 rows gains nothing from threads.
    torch.set_num_threads(1)


def small_vocabulary(kind: str, size: int) -> SubwordTokenizer:
    """Train on four hundred synthetic reviews; under a second."""
    profile = text_profile("openai")
    texts = (profile.encode(review.text) for review in synthetic_reviews(400, seed=3))
    with open(os.devnull, "w") as log:
        return SubwordTokenizer(kind, train_vocabulary(texts, kind, size, log))


@pytest.fixture(scope="session")
def subwords() -> SubwordTokenizer:
    """A vocabulary of 400 tokens."""
    return small_vocabulary("bpe", 400)


@pytest.fixture(scope="session", params=["bytes", "bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each kind of tokenizer."""
    return BYTES if request.param == "bytes" else small_vocabulary(request.param, 350)


@pytest.fixture
def subword_split(subwords: SubwordTokenizer) -> Split:
    """The reviews of `small_split` in the tokens of `subwords`."""
    texts = (review.text for review in synthetic_reviews(40, seed=5))
    return encode_split(texts, text_profile("openai"), subwords)


@pytest.fixture
def subword_model(subwords: SubwordTokenizer) -> LanguageModel:
    """A model of those tokens."""
    config = ModelConfig(hidden_size=12, embedding_size=6, vocabulary_size=subwords.vocabulary_size)
    return build_model(config, seed=4).eval()


@pytest.fixture
def small_split() -> Split:
    """Forty synthetic reviews, about five kilobytes."""
    return encode_split((r.text for r in synthetic_reviews(40, seed=5)), text_profile("openai"))


def emphatic(model: LanguageModel) -> LanguageModel:
    """Give a model weights large enough that its features differ from text to text."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layers" in name:
                parameter *= 3
    return model.eval()


@pytest.fixture
def small_model() -> LanguageModel:
    """A model with weights large enough that its features differ from text to text."""
    return emphatic(build_model(ModelConfig(hidden_size=12, embedding_size=6), seed=3))


@pytest.fixture
def write_reviews(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes labelled synthetic reviews as JSON lines."""

    def write(name: str, count: int, seed: int = 0) -> Path:
        path = tmp_path / name
        rows = (json.dumps(review._asdict()) for review in synthetic_reviews(count, seed))
        path.write_text("\n".join(rows) + "\n")
        return path

    return write


@pytest.fixture
def set_command_line(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes this process look started with a program's name and words."""

    def set_words(*words: object) -> None:
        monkeypatch.setattr(sys, "argv", list(map(str, words)))

    return set_words


@pytest.fixture
def run_here(
    set_command_line: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a script in this process: torch takes seconds to import."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.syspath_prepend(ROOT)  # before: scripts/transfer.py is not our package transfer

    def run_script(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        set_command_line(script, *arguments)
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(sys.argv, int(str(end.value.code)), out, err)

    return run_script


@pytest.fixture
def largest_file(request: pytest.FixtureRequest) -> Iterator[int]:
    """Let no file of this process grow beyond a size: a write fails there, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (request.param, before[1]))
    yield request.param
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def without_file_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system without locks."""
    fcntl = pytest.importorskip("fcntl")

    def fail(*call: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.fixture
def recycle_into(monkeypatch: pytest.MonkeyPatch) -> Callable[..., memory_pool.MemoryPool]:
    """Return a function that lets a pool hand out the tensors of windows."""

    def replace(pool: memory_pool.MemoryPool) -> memory_pool.MemoryPool:
        monkeypatch.setattr(memory_pool, "_pool", pool)
        return pool

    return replace
