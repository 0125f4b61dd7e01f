"""The same C in WebAssembly gives the same answers, bit for bit."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from model.engine import Engine
from model.engine.sources import SOURCE
from model.engine.stored import load_stored

NODE = shutil.which("node")
CLANG = shutil.which("clang-14") and shutil.which("wasm-ld-14")
TEXTS = ["I love it.", "", "It broke; avoid! \u2603", "x" * 90, "so-so"]

pytestmark = pytest.mark.skipif(
    not (NODE and CLANG), reason="needs node, clang-14 and wasm-ld-14 (Debian: clang-14, lld-14)"
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    output = tmp_path_factory.mktemp("wasm") / "engine.wasm"
    subprocess.run(["bash", SOURCE / "build_wasm.sh", output], check=True)
    return output


def as_text(array):
    return None if array is None else base64.b64encode(array.tobytes()).decode()


def described(matrix):
    arrays = {name: as_text(getattr(matrix, name)) for name in ("data", "scale", "gain")}
    return {**arrays, "rows": len(matrix.data), "columns": matrix.columns, "bits": matrix.bits}


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("name", ["default_small", "amazon_subword_1024"])
def test_the_page_would_answer_as_the_package(module, tmp_path, name, precision):
    stored, engine = load_stored(name), Engine.load(name, precision=precision)
    tokens = [engine.encode(text) for text in TEXTS]
    layers = [
        {key: described(matrix) for key, matrix in layer.matrices.items()} | {"b": as_text(layer.b)}
        for layer in stored.layers
    ]
    request = {
        "hidden": stored.architecture.hidden_size,
        "embedding": stored.architecture.embedding_size,
        "vocabulary": stored.architecture.vocabulary_size,
        "layers": layers,
        "embed": described(stored.embedding),
        "decoder": described(stored.decoder),
        "bias": as_text(stored.decoder_bias),
        "parts": 2 if precision == "exact" else 1,
        "lanes": 3,
        "texts": [each.tolist() for each in tokens],
    }
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request))
    script = Path(__file__).parent / "in_wasm.mjs"
    done = subprocess.run([NODE, script, module, path], check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    reading = engine.read(tokens, bits=True)
    assert answer["processed"] == sum(map(len, tokens))
    for key in ("mean", "last"):
        values = np.frombuffer(base64.b64decode(answer[key]), np.float32)
        np.testing.assert_array_equal(values.reshape(len(tokens), -1), getattr(reading, key))
    nats = np.frombuffer(base64.b64decode(answer["nats"]), np.float32)
    bits = nats / np.float32(np.log(2))
    np.testing.assert_array_equal(bits, np.concatenate(reading.token_bits))
