"""Every path of the engine against the equations in float64, and each against the others."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mlstm_sentiment.engine import library
from mlstm_sentiment.engine.compiled_model import CompiledModel
from mlstm_sentiment.engine.engine import Clamp, Engine, Familiarity, State
from mlstm_sentiment.engine.stored import open_model, read_weights
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.shipped import shipped_models
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.tokenizer import BYTES
from model.inference.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.mlstm_sentiment.engine.paths import COMPILED, emulate, emulated_library, take
from tests.mlstm_sentiment.engine.reference import Reference
from tests.support.runs import ROOT, run_anew

POOLINGS = ("last", "mean", "max", "min")
LENGTHS = (0, 1, 2, 3, 17, 18, 40, 65, 5, 130, 1, 0)
# Largest difference of a state from float64's: 16 bits, 8 bits, fp32.
CLOSE = {"exact": 1e-3, "fast": 0.1, "floats": 2e-5}
# hidden, embedding, layers, bits (0: floats), weight norm: odd sizes, and several layers
SIZES = [
    *((37, 13, 1, 8, True), (64, 64, 2, 6, True), (1, 1, 1, 5, True), (100, 70, 3, 5, False)),
    *((37, 13, 2, 0, True), (130, 5, 1, 0, False)),
]


def saved(folder, hidden, embedding, layers, bits, weight_norm, tokenizer=BYTES, seed=5):
    """Save a model with large weights, whose states are not small."""
    kind = {"layers": layers, "weight_norm": weight_norm}
    kind |= {"hidden_size": hidden, "embedding_size": embedding}
    config = ModelConfig(vocabulary_size=tokenizer.vocabulary_size, **kind)
    model = build_model(config, seed=seed)
    for name, parameter in model.named_parameters():
        parameter.data *= 1.5 if "g_" in name or not weight_norm else 1.0
    if hidden > 30:
        model.layers[0].w_h.data[3] = 0  # a pruned row
        if weight_norm:
            model.layers[0].g_h.data[3] = 0
    profile = text_profile("openai")
    options = {"quantized": True, "bits": bits, "decoder_bits": 6} if bits else {}
    save_model(folder, model, profile, {}, tokenizer=tokenizer, **options)
    return folder


def sequences(vocabulary, lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocabulary, length) for length in lengths]


def both(folder, path=None, **options):
    """Return a model in the engine, and in float64."""
    return Engine.load(folder, path=path, **options), Reference(read_weights(open_model(folder)))


def expected_of(reference, tokens, cell=False):
    hs, cs, bits = reference.states(tokens)
    shown = (cs if cell else hs)[:, -1]
    last = shown if len(tokens) else np.zeros((1, reference.H))
    pooled = {"last": last[-1], "mean": last.mean(0), "max": last.max(0), "min": last.min(0)}
    return pooled | {"states": shown, "bits": bits}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {size: saved(base / "-".join(map(str, size)), *size) for size in SIZES}


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("state", ["hidden", "cell"])
def test_every_path_computes_the_equations(folders, size, path, state, monkeypatch):
    take(path, monkeypatch)
    engine, reference = both(folders[size], path)
    texts, units = sequences(256), sorted({0, size[0] - 1})
    reading = engine.read(texts, POOLINGS, state=state, units=units, bits=True)
    close = CLOSE["exact" if size[3] else "floats"]
    for row, tokens in enumerate(texts):
        expected = expected_of(reference, tokens, cell=state == "cell")
        for name in POOLINGS:
            np.testing.assert_allclose(
                getattr(reading, name)[row], expected[name], atol=close, err_msg=name
            )
        np.testing.assert_allclose(
            reading.unit_states[row], expected["states"][:, units], atol=close
        )
        np.testing.assert_allclose(reading.token_bits[row], expected["bits"], atol=10 * close)
        assert reading.bits[row] == pytest.approx(expected["bits"].sum(), abs=close * 100)
    assert reading.lengths.tolist() == list(LENGTHS)


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
@pytest.mark.parametrize("bits", [8, 0])
def test_a_model_may_have_as_many_tokens_as_units(tmp_path, subwords, bits, path, monkeypatch):
    """Its decoder is as large as a matrix of its layer, and padded otherwise."""
    take(path, monkeypatch)
    size = (subwords.vocabulary_size, 8, 1, bits, True)
    engine, reference = both(saved(tmp_path / "model", *size, tokenizer=subwords), path)
    texts = sequences(subwords.vocabulary_size, (1, 5, 0))
    initial = State(*np.ones((2, len(texts), 1, subwords.vocabulary_size), np.float32))
    reading = engine.read(texts, ("last",), bits=True)
    expected = [reference.states(tokens)[2].sum() for tokens in texts]
    np.testing.assert_allclose(reading.bits, expected, atol=0.1 if bits else 2e-3)
    assert not engine.read(texts, ("last",), initial=initial).last[2].any()  # of no tokens


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize(
    ("size", "emulated"),
    [*((size, False) for size in SIZES if size[3]), *((size, True) for size in SIZES[:3])],
    ids=str,
)
def test_all_paths_give_the_same_bits(folders, size, precision, emulated, monkeypatch):
    """Of integers; on this machine's instructions, and on emulated ones."""
    paths = library.path_names()[:-1]
    if emulated:
        emulate(monkeypatch)
        paths = COMPILED
    texts = sequences(256, LENGTHS * 3)
    results = {}
    for path in paths:
        engine = Engine.load(folders[size], precision=precision, path=path)
        results[path] = engine.read(texts, POOLINGS, bits=True, final=True)
    for result in results.values():
        for name in (*POOLINGS, "bits"):
            np.testing.assert_array_equal(getattr(result, name), getattr(results["plain"], name))
        np.testing.assert_array_equal(result.state.c, results["plain"].state.c)


@pytest.mark.parametrize("path", COMPILED)
def test_fewer_bits_are_less_precise(folders, path, monkeypatch):
    take(path, monkeypatch)
    engine, reference = both(folders[SIZES[1]], path, precision="fast")
    texts = sequences(256)
    reading = engine.read(texts, ("last",))
    for row, tokens in enumerate(texts):
        expected = expected_of(reference, tokens)["last"]
        np.testing.assert_allclose(reading.last[row], expected, atol=CLOSE["fast"])


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
def test_subword_tokens(tmp_path, subwords, path, monkeypatch):
    take(path, monkeypatch)
    engine, reference = both(saved(tmp_path, 50, 20, 2, 6, True, subwords), path)
    texts = ["so good", "It broke after a week. \u00e9\u2603", ""]
    reading = engine.read(texts, POOLINGS, bits=True)
    for row, text in enumerate(texts):
        tokens = subwords.encode(b"\n " + text.encode() + b" ")
        assert engine.encode(text).tolist() == tokens.tolist()
        expected = expected_of(reference, tokens)
        np.testing.assert_allclose(reading.mean[row], expected["mean"], atol=CLOSE["exact"])
        assert reading.bits[row] == pytest.approx(expected["bits"].sum(), abs=0.05)


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
def test_a_long_text(folders, long_states, path, monkeypatch):
    """A mean over 25,000 tokens keeps its digits; the other texts go on next to it."""
    take(path, monkeypatch)
    tokens, hs = long_states
    engine = Engine.load(folders[SIZES[0]], path=path)
    reading = engine.read([tokens[:9], tokens, tokens[:70]], POOLINGS, units=[7])
    np.testing.assert_allclose(reading.mean[1], hs.mean(0), atol=1e-4)
    np.testing.assert_allclose(reading.last[1], hs[-1], atol=CLOSE["exact"])
    np.testing.assert_allclose(reading.unit_states[1][:, 0], hs[:, 7], atol=CLOSE["exact"])
    np.testing.assert_allclose(reading.last[0], hs[8], atol=CLOSE["exact"])


@pytest.fixture(scope="module")
def long_states(folders):
    """Many tokens, and the states after each."""
    (tokens,) = sequences(256, [25_000])
    _, reference = both(folders[SIZES[0]])
    hs, _, _ = reference.states(tokens, with_bits=False)
    return tokens, hs[:, -1]


@pytest.mark.parametrize("path", COMPILED)
def test_functions_of_the_gates(path, monkeypatch):
    """exp to 4e-7 of it; sigmoid and tanh to 3e-7."""
    take(path, monkeypatch)
    x = np.concatenate([np.linspace(-87, 87, 65_536), np.linspace(-1e-3, 1e-3, 4096)])
    x = np.concatenate([x, np.full(16, 1e30), np.full(16, -1e30)]).astype(np.float32)
    y = np.empty((3, len(x)), np.float32)
    library.engine_library().engine_functions(
        COMPILED.index(path), x.ctypes.data, y.ctypes.data, len(x)
    )
    wide = x.astype(np.float64)
    small = np.abs(wide) < 87
    # The argument's own rounding grows with it: half a unit in the last place of x log2(e).
    bound = 2e-7 + np.abs(wide[small]) * 2.0**-23
    assert (np.abs(y[0][small] / np.exp(wide[small]) - 1) < bound).all()
    with np.errstate(over="ignore"):
        assert np.abs(y[1] - 1 / (1 + np.exp(-wide))).max() < 3e-7
    assert np.abs(y[2] - np.tanh(wide)).max() < 3e-7


def test_a_text_is_computed_alike_in_any_company(folders):
    """Bit for bit: alone, among others, in another order, on more threads, with fewer lanes."""
    for size in SIZES:
        engine = Engine.load(folders[size])
        texts = sequences(256, LENGTHS * 40, seed=3)
        together = engine.read(texts, POOLINGS, bits=True)
        order = np.random.default_rng(1).permutation(len(texts))
        shuffled = engine.read([texts[row] for row in order], POOLINGS, bits=True, threads=3)
        few = Engine(read_weights(open_model(folders[size])))
        few._runs = CompiledModel(read_weights(open_model(folders[size])), few.path, 2, lanes=3)
        for name in (*POOLINGS, "bits"):
            values = getattr(together, name)
            np.testing.assert_array_equal(values[order], getattr(shuffled, name))
            np.testing.assert_array_equal(
                values[:40], getattr(few.read(texts[:40], POOLINGS, bits=True), name)
            )
            for row in (4, 9, 11):
                alone = engine.read([texts[row]], POOLINGS, bits=True)
                np.testing.assert_array_equal(values[row], getattr(alone, name)[0])


@pytest.mark.parametrize("path", [library.NUMPY, None])
def test_a_state_goes_on(folders, path):
    for size in (SIZES[1], SIZES[4]):
        engine = Engine.load(folders[size], path=path)
        whole = sequences(256, [40, 31, 7])
        reading = engine.read(whole, final=True, bits=True)
        state = engine.advance(engine.initial_state(3), [tokens[:5] for tokens in whole])
        part = engine.read([tokens[5:] for tokens in whole], initial=state, final=True, bits=True)
        same = np.testing.assert_array_equal if path is None else np.testing.assert_allclose
        for mine, its in zip(reading.state, part.state, strict=True):
            same(mine, its, **({} if path is None else {"atol": 1e-6}))
        for mine, its in zip(reading.token_bits, part.token_bits, strict=True):
            same(mine[5:], its, **({} if path is None else {"atol": 1e-5}))


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
def test_the_next_token(folders, path, monkeypatch):
    take(path, monkeypatch)
    for size in (SIZES[0], SIZES[3], SIZES[5]):
        engine, reference = both(folders[size], path)
        texts = sequences(256, [3, 20] + [1] * 70)
        logits = engine.next_token(engine.advance(engine.initial_state(72), texts))
        for row in (0, 1, 71):
            hs, _, _ = reference.states(texts[row])
            expected = reference.logits(hs[-1, -1])
            np.testing.assert_allclose(logits[row], expected, atol=5e-3)


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
@pytest.mark.parametrize("held", [{"cell": 1.5}, {"hidden": -0.7}, {"cell": 1.0, "hidden": 0.2}])
def test_a_unit_held_at_a_value(folders, held, path, monkeypatch):
    take(path, monkeypatch)
    for size, layer in ((SIZES[1], 0), (SIZES[3], 2), (SIZES[4], 1)):
        engine, reference = both(folders[size], path)
        clamp = Clamp(unit=9, layer=layer, **held)
        (tokens,) = sequences(256, [25])
        reading = engine.read([tokens], (), units=range(size[0]), clamp=clamp, final=True)
        hs, cs, _ = reference.states(tokens, clamp=clamp)
        np.testing.assert_allclose(reading.unit_states[0], hs[:, -1], atol=2e-3)
        np.testing.assert_allclose(reading.state.c[0], cs[-1], atol=2e-3)


def test_several_layers_and_tanh(folders):
    (tokens,) = sequences(256, [70])
    kind = {"state": "cell", "layers": [2, 0], "tanh": True, "units": [4, 1]}
    for path in (None, library.NUMPY):
        engine, reference = both(folders[SIZES[3]], path)
        reading = engine.read([tokens], POOLINGS, **kind)
        _, cs, _ = reference.states(tokens)
        shown = np.tanh(cs[:, [2, 0]]).reshape(70, -1)
        expected = [shown[-1], shown.mean(0), shown.max(0), shown.min(0)]
        for name, values in zip(POOLINGS, expected, strict=True):
            np.testing.assert_allclose(getattr(reading, name)[0], values, atol=1e-3)
        four = np.tanh(cs[:, [2, 0]][:, :, [4, 1]]).reshape(70, -1)
        np.testing.assert_allclose(reading.unit_states[0], four, atol=1e-3)


@pytest.fixture(scope="module")
def costs_of_texts(folders):
    """Texts, and the bits of their tokens by models of several sizes."""
    texts = sequences(256, LENGTHS * 4, seed=8)
    references = {size: both(folders[size])[1] for size in (SIZES[1], SIZES[3], SIZES[4])}
    costs = {size: [one.states(each)[2] for each in texts] for size, one in references.items()}
    return texts, costs


@pytest.mark.parametrize("path", [*COMPILED, library.NUMPY])
def test_unfamiliar_texts(folders, costs_of_texts, path, monkeypatch):
    """Decided early, and alike with bits and without, in any company."""
    take(path, monkeypatch)
    texts, costs_of_sizes = costs_of_texts
    for size, costs in costs_of_sizes.items():
        engine = Engine.load(folders[size], path=path)
        per_byte = float(np.mean(np.concatenate(costs)))
        familiarity = Familiarity(per_byte, 0.05, margin=0.4)
        reading = engine.read(texts, familiarity=familiarity)
        expected = []
        for bits in costs:
            excess = np.cumsum(bits - per_byte) - 0.05
            far = np.flatnonzero(np.abs(excess) > 0.4)
            expected.append(bool(len(bits)) and excess[far[0] if len(far) else -1] > 0)
        assert 2 < sum(expected) < len(texts) - 2
        assert (reading.unfamiliar != expected).mean() < 0.1  # some are close
        assert reading.bits is None
        with_bits = engine.read(texts, bits=True, familiarity=familiarity)
        assert with_bits.unfamiliar.tolist() == reading.unfamiliar.tolist()
        alone = [engine.read([each], familiarity=familiarity).unfamiliar[0] for each in texts[:12]]
        assert reading.unfamiliar[:12].tolist() == alone


def test_equal_texts_are_computed_once(folders):
    engine = Engine.load(folders[SIZES[0]])
    counted = []
    texts = ["good", "bad", "good"] * 1000
    reading = engine.read(texts, bits=True, units=[1], advance=counted.append)
    assert sum(counted) == sum(len(engine.encode(text)) for text in ("good", "bad"))
    np.testing.assert_array_equal(reading.mean[:3], reading.mean[-3:])
    assert reading.bits[0] == reading.bits[2] != reading.bits[1]
    assert len(reading.unit_states) == len(texts)
    pair, one = np.array([65, 0], np.uint8), np.array([65], np.uint16)  # of the same bytes
    apart = [engine.read([tokens]).mean[0] for tokens in (pair, one)]
    np.testing.assert_array_equal(engine.read([pair, one]).mean, apart)
    for path in (None, library.NUMPY):
        none = Engine.load(folders[SIZES[0]], path=path).read([], POOLINGS, bits=True, units=[0])
        assert (none.mean.shape, none.bits.shape, none.unit_states) == ((0, 37), (0,), [])


def test_progress_on_the_numpy_path_is_complete_and_not_after_every_token(folders, monkeypatch):
    monkeypatch.setattr("mlstm_sentiment.engine.numpy_model.SECONDS_BETWEEN_LOOKS", 1000.0)
    engine, counted = Engine.load(folders[SIZES[0]], path=library.NUMPY), []
    texts = ["good", "so bad"]
    engine.read(texts, advance=counted.append)
    assert counted == [sum(len(engine.encode(text)) for text in texts)]


def test_logits_far_apart(tmp_path):
    """The largest may come late, and be hundreds above the first."""
    folder = saved(tmp_path, 40, 8, 1, 0, False)
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["decoder.bias"] = np.linspace(-400, 400, 256).astype(np.float32)
    save_file(weights, folder / "model.safetensors")
    texts, reference = sequences(256, [50]), Reference(read_weights(open_model(folder)))
    _, _, expected = reference.states(texts[0])
    for path in library.path_names():
        reading = Engine.load(folder, path=path).read(texts, bits=True)
        np.testing.assert_allclose(reading.token_bits[0], expected, rtol=1e-4, atol=1e-3)


def test_what_a_model_lacks_is_refused(folders, tmp_path):
    engine = Engine.load(folders[SIZES[0]])
    for arguments, words in [
        ({"units": [37]}, "unit 37: the model has units 0 to 36"),
        ({"layers": [1]}, "layer 1: the model has layers 0 to 0"),
        ({"pooling": ["middle"]}, "pooling 'middle' is unknown"),
        ({"clamp": Clamp(unit=40, cell=1.0)}, "unit 40"),
        (
            {"initial": engine.initial_state(2)},
            r"the state is \[2, 1, 37\]; it must be \[1, 1, 37\]",
        ),
    ]:
        with pytest.raises(InputError, match=words):
            engine.read(["a"], **arguments)
    with pytest.raises(InputError, match="tokens from 3 to 256; the model has 0 to 255"):
        engine.read([np.array([3, 256])])
    with pytest.raises(InputError, match="precision is 'int8'; known: exact, fast"):
        Engine.load(folders[SIZES[0]], precision="int8")
    with pytest.raises(InputError, match="path 'amxx' is unknown; did you mean amx"):
        Engine.load(folders[SIZES[0]], path="amxx")
    other = ModelConfig(cell="lstm", hidden_size=8)
    save_model(tmp_path, build_model(other, seed=1), text_profile("raw"), {})
    with pytest.raises(InputError, match="the model's cell is lstm, which needs PyTorch"):
        Engine.load(tmp_path)


def test_an_error_of_progress_ends_the_computation():
    engine = Engine.load("default")
    texts = sequences(4096, [20_000])

    def refuse(tokens):
        raise RuntimeError("enough")

    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="enough"):
        engine.read(texts, advance=refuse)
    assert time.perf_counter() - start < 3
    assert threading.active_count() < 10


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_ends_the_computation():
    engine = Engine.load("default")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        engine.read(sequences(4096, [50_000]))
    assert time.perf_counter() - start < 5
    timer.join()


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_models_are_as_in_torch(name):
    """Features and bits, and so answers, are torch's."""
    from model.inference.weights import load_model

    texts = [
        "I love it, it works perfectly.",
        "It broke after a week; avoid!",
        "It is a phone \u2014 \u4e0d\u9519 \U0001f600",
        "We have had it for a year, and it still does all that it did on the first day.",
    ]
    engine = Engine.load(name)
    loaded = load_model(name)
    for state in ("hidden", "cell"):
        expected = loaded.read(texts, POOLINGS, state=state, bits=True)
        reading = engine.read(texts, POOLINGS, state=state, bits=True)
        largest = np.abs(expected.features(POOLINGS)).max()
        np.testing.assert_allclose(
            reading.features(POOLINGS), expected.features(POOLINGS), atol=2e-3 * largest
        )
        np.testing.assert_allclose(reading.bits, expected.bits, rtol=1e-4)


def test_without_a_compiler_numpy_computes_and_says_so_once(tmp_path):
    code = (
        "from mlstm_sentiment.engine.engine import Engine\n"
        "for _ in range(2): engine = Engine.load('default_small')\n"
        "print(engine.path, engine.read(['so good']).mean.shape)"
    )
    environment = {"PATH": str(tmp_path), "CC": "", "XDG_CACHE_HOME": str(tmp_path)}
    done = run_anew("-c", code, env=environment)
    assert done.stdout == "numpy (1, 512)\n"
    assert done.stderr.count("the engine was not compiled (no C compiler)") == 1


def test_a_compiled_library_needs_no_compiler_and_an_unmatched_quote_is_done_without(tmp_path):
    code = "from mlstm_sentiment.engine import library; print(library.engine_library() is not None)"
    environment = {"CC": "gcc '", "XDG_CACHE_HOME": str(tmp_path)}
    done = run_anew("-c", code, env=environment)
    assert done.stdout == "True\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("CC names gcc ', which is not an installed program; using ")
    done = run_anew("-c", code, env={**environment, "CC": "", "PATH": str(tmp_path)})
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_damaged_library_is_compiled_again(tmp_path, monkeypatch):
    shown = '__attribute__((visibility("default")))'
    (tmp_path / "engine.c").write_text(f"int {shown} answer(void) {{ return 42; }}")
    monkeypatch.setattr(library, "SOURCE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = library.compiled()
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert library.compiled() == path
    assert path.read_bytes()[:4] == content[:4]
    assert ctypes.CDLL(str(path)).answer() == 42
    path.chmod(0o666)  # another user may have written it
    assert ctypes.CDLL(str(library.compiled())).answer() == 42
    assert path.stat().st_mode & 0o777 == 0o700


def test_emulation_runs_every_path():
    if (emulated := emulated_library()) is None:
        pytest.skip("no C compiler")
    assert all(emulated.engine_path_runs(number) for number in range(len(COMPILED)))


_SHARED = """
import threading
import numpy as np
from mlstm_sentiment.engine.engine import Engine
from mlstm_sentiment.engine.library import NUMPY, path_names

rng = np.random.default_rng(0)
for path in path_names():
    for threads in (2, 4) if path != NUMPY else ():
        engine = Engine.load("default_small", threads=threads, path=path)
        size = engine.architecture.resolved_vocabulary_size
        texts = [rng.integers(0, size, length) for length in (0, 1, 5, 60, 33, 3, 17, 40, 9, 2)]
        read = lambda: engine.read(texts, ("last", "mean", "max"), bits=True, units=[1, 2])
        callers = [threading.Thread(target=read) for _ in range(3)]
        [caller.start() for caller in callers]
        state = engine.advance(engine.initial_state(3), texts[1:4])
        engine.next_token(state)
        [caller.join() for caller in callers]
        print("read", path, threads)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["thread", "address"])
def test_no_sanitizer_reports_the_engine(tmp_path, kind):
    """Threads share a model, and each call has threads of its own."""
    name = {"thread": "libtsan.so", "address": "libasan.so"}[kind]
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    if not os.path.isabs(runtime := found.stdout.strip()):
        pytest.skip(f"gcc has no {name}")
    environment = {
        **os.environ,
        # Calls instead of inlined checks: gcc compiles those of addresses for many minutes.
        "CC": f"gcc -fsanitize={kind} --param asan-instrumentation-with-call-threshold=0 -w",
        "XDG_CACHE_HOME": str(tmp_path),
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    build = "from mlstm_sentiment.engine.library import compiled; compiled()"
    subprocess.run([sys.executable, "-c", build], env=environment, cwd=ROOT, check=True)
    process = subprocess.run(
        [sys.executable, "-c", _SHARED],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**environment, "LD_PRELOAD": runtime},  # not for the compiler, which it slows down
    )
    assert process.returncode == 0, process.stderr
    assert "Sanitizer" not in process.stderr, process.stderr
    assert "not compiled" not in process.stderr, process.stderr
    assert "read plain 4" in process.stdout
