"""What only a GPU can show: the recurrence and training there, against the CPU in fp64."""

from functools import partial

import numpy as np
import pytest
import torch

from data_utils.lanes import WindowBatch
from data_utils.synthetic import synthetic_reviews
from experiments.speed.benchmark.recurrence import RecurrenceOptions, measure_recurrence
from mlstm_sentiment.engine.featurizer import SentimentFeaturizer
from mlstm_sentiment.engine.request import Clamp
from mlstm_sentiment.engine.sampling import SamplingConfig, generate
from mlstm_sentiment.text.profiles import text_profile
from mlstm_sentiment.text.split import encode_split
from mlstm_sentiment.text.tokenizer import BYTES
from mlstm_sentiment.units.unit_traces import read_texts
from model.inference.features import features_in_order
from model.inference.tensors import save_model
from model.inference.weights import LoadedModel, load_model
from model.kernels.reference.mlstm import reference_mlstm
from model.kernels.triton import graphs as cuda_graphs
from model.kernels.weight_gradients import summed_product
from model.kernels.window import Inputs
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.recurrence import recur
from tests.model.layers.windows import (
    error,
    exact,
    hold_cell_state_in_fp32,
    make_inputs,
    results,
    scaled_inputs,
    tolerance,
    window_of,
)
from tests.support.runs import done, rows_of, small_run
from tests.support.runs import run as run_command
from tests.support.trainers import make_trainer
from tests.transfer.finetuning.tasks import several
from training.evaluation import evaluate_split
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from transfer.features import FeatureCache
from transfer.finetuning.config import FinetuningConfig
from transfer.finetuning.encoder import encode
from transfer.finetuning.experiment import make_finetuner
from transfer.finetuning.task import make_task

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
fused_mlstm = partial(recur, "auto")


def on_the_gpu(inputs):
    return [tensor.detach().cuda().requires_grad_() for tensor in inputs]


@pytest.mark.parametrize(
    ("recurrence", "T", "B", "H"),
    [
        (reference_mlstm, 32, 16, 128),
        (fused_mlstm, 32, 16, 128),
        (fused_mlstm, 9, 37, 333),
        (fused_mlstm, 8, 256, 512),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_recurrence_on_the_gpu_equals_fp64(recurrence, dtype, T, B, H):
    inputs = scaled_inputs(dtype, T, B, H)
    expected = results(reference_mlstm, exact(inputs))
    for a, e in zip(results(recurrence, on_the_gpu(inputs)), expected, strict=True):
        assert error(a.cpu(), e) <= tolerance(dtype, T, H)


@pytest.mark.parametrize("recurrence", [reference_mlstm, fused_mlstm])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cell_state_on_the_gpu_is_kept_in_fp32(recurrence, dtype):
    hold_cell_state_in_fp32(recurrence, dtype, "cuda")


@pytest.mark.parametrize("size", [400, 2000])
def test_tokens_of_a_vocabulary_on_the_gpu_equal_the_cpu(size):
    """Few tokens are tabulated, many projected as they come; uint16 is copied as it is."""
    tokens = np.random.default_rng(0).integers(0, size, (6, 33)).astype(np.uint16)
    window = WindowBatch(tokens, np.full(6, 32), np.full(6, True), 6 * 32, 6 * 50)
    config = ModelConfig(hidden_size=16, vocabulary_size=size)
    results = []
    for device in ("cpu", "cuda"):
        batch = as_batch(window, torch.device(device))
        model = build_model(config, seed=1).to(device)
        nats, _ = model.loss(batch.inputs, batch.targets, model.initial_state(6))
        nats.backward()
        results.append([nats.detach().cpu(), *(p.grad.cpu() for p in model.parameters())])
    for cpu, gpu in zip(*results, strict=True):
        torch.testing.assert_close(gpu, cpu, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_on_the_gpu_follows_the_cpu(precision, tmp_path):
    changes = {"train.precision": precision, "optim.clip_norm": 1.0}
    for device in ("cpu", "cuda"):
        process = run_command(
            *small_run(tmp_path / device, 40, **{**changes, "train.device": device})
        )
        done(process)
    cpu, gpu = rows_of(tmp_path / "cpu")[-1], rows_of(tmp_path / "cuda")[-1]
    key = "valid_bits_per_character"
    assert gpu[key] == pytest.approx(cpu[key], abs=0.02)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_table_on_the_gpu(dtype):
    T, B, H = 32, 16, 128
    x_proj, *rest = scaled_inputs(dtype, T, B, H)
    inputs = [x_proj.detach().view(-1, 5 * H)[:50], *rest]
    rows = torch.randint(0, 50, (T, B), generator=torch.Generator().manual_seed(1))
    actual = results(fused_mlstm, on_the_gpu(inputs), rows.cuda())
    expected = results(reference_mlstm, exact(inputs), rows)
    for a, e in zip(actual, expected, strict=True):
        assert error(a.cpu(), e) <= tolerance(dtype, T, H)


def test_graphs_serve_one_window_at_a_time():
    """Two windows before their backwards, and a third after: no captured memory is shared."""
    batches = []
    for seed in range(3):
        inputs = [tensor.detach() for tensor in make_inputs(torch.float32, 16, 8, 64, seed)]
        inputs[3:5] = [weight / 8 for weight in inputs[3:5]]
        batches.append([tensor.cuda().requires_grad_() for tensor in inputs])
    alone = [results(fused_mlstm, inputs) for inputs in batches]
    losses = []
    for x_proj, h, c, *weights in batches[:2]:
        outputs, state = fused_mlstm(window_of(x_proj, h, c, *weights))
        losses.append(
            sum(out.double().square().sum() for out in (outputs, *state.tensors().values()))
        )
    for loss, inputs, expected in zip(losses, batches, alone, strict=False):
        for a, e in zip(torch.autograd.grad(loss, inputs), expected[3:], strict=True):
            assert torch.equal(a, e)
    for a, e in zip(results(fused_mlstm, batches[2]), alone[2], strict=True):
        assert torch.equal(a, e)


def test_a_window_that_is_given_up_frees_its_graph():
    x_proj, h, c, *weights = (t.cuda() for t in make_inputs(torch.float32, 4, 2, 32))
    graphs = cuda_graphs.Graphs()
    with cuda_graphs.captured_by(graphs):
        for _ in range(3):
            fused_mlstm(window_of(x_proj, h, c, *weights))
    inputs = Inputs(x_proj, None, h, c, *weights)
    assert len(graphs.idle[graphs.capture_key(inputs)]) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_captured_read_gives_what_one_without_graphs_gives(dtype):
    T, B, H = 64, 16, 128
    graphs = cuda_graphs.InferenceGraphs()
    for seed in range(4):
        drawn = make_inputs(dtype, T, B, H, seed)
        x_proj, h, c, *weights = (tensor.detach().cuda() for tensor in drawn)
        window = window_of(x_proj, h, c, *(weight / 8 for weight in weights))
        with torch.inference_mode(), cuda_graphs.captured_by(None, graphs):
            outputs, last = fused_mlstm(window)
        with torch.inference_mode(), cuda_graphs.without_graphs():
            expected, after = fused_mlstm(window)
        assert torch.equal(outputs, expected)
        assert torch.equal(last.c, after.c)
    (idle,) = graphs.idle.values()
    assert len(idle) == 1


def test_an_evaluation_is_captured_and_equals_the_cpus(tmp_path):
    reviews = (review.text for review in synthetic_reviews(300, seed=3))
    split = encode_split(reviews, text_profile("openai"))
    graphs, scores = cuda_graphs.InferenceGraphs(), []
    for device in ("cpu", "cuda"):
        model = build_model(ModelConfig(hidden_size=64), seed=1).to(device).eval()
        world = World(0, 1, torch.device(device))
        with cuda_graphs.captured_by(None, graphs):
            scores.append(evaluate_split(model, split, lanes=8, world=world)[0])
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)
    assert graphs.idle


def test_featurizing_is_captured_and_equals_the_cpus():
    texts = [review.text[:90] for review in synthetic_reviews(60, seed=3)]
    profile, graphs, features = text_profile("openai"), cuda_graphs.InferenceGraphs(), []
    sequences = [BYTES.encode(profile.encode(text)) for text in texts]
    for device in ("cpu", "cuda"):
        model = build_model(ModelConfig(hidden_size=64), seed=1).to(device).eval()
        with cuda_graphs.captured_by(None, graphs):
            features.append(features_in_order(model, sequences, batch_size=16))
    np.testing.assert_allclose(features[1], features[0], rtol=1e-3, atol=1e-4)
    assert graphs.idle


def test_weight_gradients_of_16_bits_are_in_fp32():
    """cuBLAS adds up all parts of a gradient in fp32 and rounds once."""
    drawn = torch.Generator().manual_seed(0)
    a, b = (torch.randn(4096, 64, generator=drawn).bfloat16() for _ in range(2))
    gradient = summed_product(a.cuda(), b.cuda())
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(
        gradient.cpu().double(), a.double().t() @ b.double(), rtol=1e-4, atol=1e-2
    )


def test_lane_groups_share_a_window_and_dropout_is_the_cpus():
    masks, graphs = [], cuda_graphs.Graphs()
    for device in ("cpu", "cuda"):
        trainer = make_trainer(
            lanes=8,
            hidden_size=64,
            dropout=0.3,
            world=World(0, 1, torch.device(device)),
            parallel=ParallelConfig(lane_groups=2),
        )
        used, loss = [], trainer.model.loss

        def noting(*inputs, used=used, loss=loss, **options):
            used.append(inputs[3].cpu())
            return loss(*inputs, **options)

        trainer.model.loss = noting
        tokens = np.random.default_rng(0).integers(0, 256, (8, 17), dtype=np.uint8)
        window = WindowBatch(tokens, np.full(8, 16), np.full(8, True), 128, 128)
        with cuda_graphs.captured_by(graphs):
            for _ in range(2):
                trainer.train(as_batch(window, trainer.world.device))
        masks.append(torch.cat(used))
    assert torch.equal(*masks)
    (idle,) = graphs.idle.values()
    assert len(idle) == 1


@pytest.mark.parametrize("inference", [False, True])
def test_the_benchmark_of_the_recurrence_runs(inference):
    """Captures free unused memory; each lower bound's graph must keep its own."""
    options = RecurrenceOptions(
        hidden_size=64, batch=8, window=16, dtype="bf16", rounds=2, device="cuda",
        inference=inference,
    )  # fmt: skip
    result = measure_recurrence(options)
    assert result["implementation"] == "Triton"
    assert "to_library_floor" in result["ratios"]


@pytest.mark.parametrize("cell", ["mlstm", "lstm"])
def test_fine_tuning_on_the_gpu_learns_what_the_cpu_learns(cell, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    results = {}
    for device in ("cpu", "cuda"):
        model = build_model(ModelConfig(cell=cell, hidden_size=16), seed=4)
        loaded = LoadedModel(model, text_profile("openai"), tmp_path)
        task = make_task(loaded, several(24), several(12, seed=50))
        config = FinetuningConfig(dropout=0.0, batch_size=8, warmup=0.0)
        tuner = make_finetuner(
            loaded, task, config, torch.device(device), FeatureCache(tmp_path / "features")
        )
        tuner.standardize()
        cells = encode(task.train[:8], tuner.model, config.window)
        tuner.step(np.arange(8))
        results[device] = cells.detach().cpu(), tuner.progress.head_loss
        tuner.evaluate()
    torch.testing.assert_close(results["cuda"][0], results["cpu"][0], rtol=1e-4, atol=1e-4)
    assert results["cuda"][1:] == pytest.approx(results["cpu"][1:], rel=1e-4)


def test_a_model_on_the_gpu_reads_as_on_the_cpu(tmp_path):
    model = build_model(ModelConfig(hidden_size=64), seed=1)
    save_model(tmp_path / "model", model, text_profile("openai"), {})
    texts = ["good", "It broke. " * 40, ""]
    results = []
    for device in ("cpu", "cuda"):
        loaded = load_model(tmp_path / "model", compute_dtype=torch.float32, device=device)
        assert loaded.model.embedding.weight.device.type == device
        features = SentimentFeaturizer(loaded).transform(texts)
        values = read_texts(loaded, texts[:2], [3, 5]).traces[1].values
        config = SamplingConfig(length=50, temperature=0)
        written = generate(loaded, b"I", config, clamp=Clamp(unit=3, cell=1.0))
        assert "".join(characters for _, characters in written)
        results.append((torch.from_numpy(features), torch.as_tensor(values)))
    for cpu, gpu in zip(*results, strict=True):
        torch.testing.assert_close(gpu, cpu, rtol=1e-3, atol=1e-4)
