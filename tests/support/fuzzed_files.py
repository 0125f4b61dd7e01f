"""Vocabularies, folders and compiled libraries changed at random, and what must hold of each."""

import ctypes
import hashlib
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files import compiled_code
from mlstm_sentiment.files.shipped import SHIPPED_MODELS
from mlstm_sentiment.files.storage import check_replaceable, whole_folder
from mlstm_sentiment.files.writer import RECORD
from mlstm_sentiment.text.subwords import SubwordTokenizer
from mlstm_sentiment.text.tokenizer import TOKENIZER_FILE
from model.kernels import compilation
from training.runs.run_directory import PretrainingDirectory

Outcomes = tuple[Counter[str], list[str]]
PIECES = [
    "good",
    " ",
    "  ",
    "\u00a0",
    "\u00e9",
    "e\u0301",
    "\ufb01",
    "\U0001f600",
    "\t",
    "\n",
    "\x00",
    "1",
]
SWITCHES = (
    b"identity",
    b"nmt_nfkc",
    b"nfkc_cf",
    b"\x18\x00",
    b"\x18\x01",
    b"\x20\x00",
    b"\x20\x01",
)


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Return a file's bytes, cut, flipped, joined or with a setting exchanged."""
    kind, at = draw.randrange(5), draw.randrange(len(content))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content + content[at : at + 50]
    if kind == 3:
        old, new = draw.sample(SWITCHES, 2)
        return content.replace(old, new)
    return content


def try_vocabularies(folder: Path, inputs: int) -> Outcomes:
    """Load changed vocabularies: each is refused, or gives back every text."""
    content = (SHIPPED_MODELS / "amazon_subword_1024" / TOKENIZER_FILE).read_bytes()
    counts, wrong = Counter[str](), []
    for seed in range(inputs):
        draw = random.Random(seed)
        try:
            tokenizer = SubwordTokenizer("bpe", damaged(draw, content))
        except InputError:
            counts["refused"] += 1
            continue
        text = "".join(draw.choices(PIECES, k=20)).encode() + bytes([draw.randrange(256)])
        right = tokenizer.decode(tokenizer.encode(text)) == text
        counts["right" if right else "wrong"] += 1
        if not right:
            wrong.append(f"seed {seed}: {text!r} changed")
    return counts, wrong


def try_folders(folder: Path, inputs: int) -> Outcomes:
    """Replace folders that hold our files, others' files and links: nothing of others is lost."""
    ours = PretrainingDirectory.MODEL_FILES
    counts, wrong = Counter[str](), []
    for seed in range(inputs):
        draw, place = random.Random(seed), folder / str(seed)
        target, outside = place / "model", place / "outside"
        outside.mkdir(parents=True)
        (outside / "letter.txt").write_text("kept")
        if draw.random() < 0.2:
            target.symlink_to(outside)
        else:
            target.mkdir()
            for name in draw.sample(["config.json", "model.safetensors", "tokenizer.model"], 2):
                (target / name).write_text("ours")
            for name in draw.sample(
                ["notes.txt", "classifier", "link", ".hidden"], draw.randrange(3)
            ):
                _add_foreign(target / name, outside)
        foreign = _foreign_in(place, target)
        try:
            if draw.random() < 0.5:
                check_replaceable(target, ours)
            with whole_folder(target, ours) as partial:
                (partial / "config.json").write_text("new")
            outcome = "replaced"
        except InputError:
            outcome = "refused"
        left = {path.name for path in place.rglob("*")}
        right = foreign <= left and (outside / "letter.txt").read_text() == "kept"
        counts[outcome if right else "wrong"] += 1
        if not right:
            wrong.append(f"seed {seed}: lost {foreign - left}")
        shutil.rmtree(place)
    return counts, wrong


def _add_foreign(path: Path, outside: Path) -> None:
    if path.name == "classifier":
        path.mkdir()
        (path / "mine.txt").write_text("mine")
    elif path.name == "link":
        path.symlink_to(outside)
    else:
        path.write_text("mine")


def _foreign_in(place: Path, target: Path) -> set[str]:
    ours = {"config.json", "model.safetensors", "tokenizer.model", target.name}
    return {path.name for path in place.rglob("*")} - ours


def try_caches(folder: Path, inputs: int) -> Outcomes:
    """Change a compiled library, its digest and its rights: only what was built is loaded."""
    built = folder / "built.so"
    source = folder / "number.cpp"
    source.write_text('extern "C" int number() { return 7; }')
    build = compilation.Build(source, (), (), "number")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    shutil.copy(compilation._compiled(build), built)
    library = compilation._compiled(build)
    record = library.with_name(RECORD)
    counts, wrong = Counter[str](), []
    for seed in range(inputs):
        draw = random.Random(seed)
        library.unlink(missing_ok=True)
        content = damaged(draw, built.read_bytes())
        library.write_bytes(content)
        library.chmod(draw.choice([0o755, 0o755, 0o777, 0o775]))
        recorded = draw.choice([built.read_bytes(), built.read_bytes(), content[:-1]])
        digest = hashlib.sha256(recorded).hexdigest()
        line = {"file": library.name, "kind": "compiled code", "sha256": digest}
        record.write_text(json.dumps(line) + "\n")
        trusted = compiled_code._is_whole(library, build.function)
        mode = library.stat().st_mode & 0o022
        right = not trusted or (content == built.read_bytes() and not mode)
        counts["loaded" if trusted and right else "rebuilt" if right else "wrong"] += 1
        if not right:
            wrong.append(f"seed {seed}: a changed library is trusted")
    assert ctypes.CDLL(str(compilation._compiled(build))).number() == 7
    return counts, wrong


KINDS: dict[str, Callable[..., Outcomes]] = {
    "vocabularies": try_vocabularies,
    "folders": try_folders,
    "caches": try_caches,
}
