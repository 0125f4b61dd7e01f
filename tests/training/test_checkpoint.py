"""Checkpoints: whole or absent, the newest kept, everything in them exact."""

from itertools import product

import pytest
import torch

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.storage import read_json
from mlstm_sentiment.files.writer import write_json
from model.inference.tensors import save_model, save_tensors
from model.inference.weights import load_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import DTYPES
from tests.support.trainers import PROFILE, make_trainer, saved_by, train
from training import checkpoint
from training.checkpoint import Checkpoints
from training.parallel.distributed import World
from training.parallel.exchange import ParallelConfig
from training.runs.checkpoint_store import flatten_optimizers, load_tensors
from training.start import StartModel


def assert_same_tensors(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key


def assert_same_training(one, other):
    """Assert that two trainers stand at the same place, bit for bit; return their row."""
    row = one.close_row()
    assert other.close_row() == row
    assert one.progress == other.progress
    assert one.scaler.state_dict() == other.scaler.state_dict()
    assert_same_tensors(one.model.state_dict(), other.model.state_dict())
    assert_same_tensors(*(flatten_optimizers(each.optimizers) for each in (one, other)))
    assert_same_tensors(one.state.tensors(), other.state.tensors())
    return row


CELLS = ("lstm", "gru", "transformer")
EXACT = [
    *(("fp16", {"name": name}) for name in ("adam", "adamw", "sgd", "muon", "lamb")),
    *(("bf16", {"name": "muon", "cell": cell}) for cell in CELLS),
    *(("fp32", {"name": name}) for name in ("adam", "muon")),
    *(("fp16", {"name": name, "loss_scale": 2.0**60}) for name in ("adam", "muon")),
]


@pytest.mark.parametrize(("precision", "changes"), EXACT, ids=str)
def test_a_restored_trainer_continues_exactly(checkpoints, small_split, precision, changes):
    trainer, restored = (make_trainer(precision, **{"clip_norm": 1.0} | changes) for _ in range(2))
    saved_by(checkpoints, small_split, trainer, steps=4)
    checkpoints.restore(restored)
    for each in (trainer, restored):
        train(each, small_split, 3)
    row = assert_same_training(trainer, restored)
    if "loss_scale" in changes:
        assert row["overflows"] == 7  # before the save, too


@pytest.mark.parametrize(("before", "now"), [("fp16", "fp32"), ("fp32", "bf16"), ("fp16", "bf16")])
def test_another_precision_rounds_the_carried_state_and_nothing_else(
    checkpoints, small_split, before, now
):
    trainer = saved_by(checkpoints, small_split, make_trainer(before), 2)
    restored = make_trainer(now)
    fresh = restored.scaler.state_dict()
    checkpoints.restore(restored)
    assert_same_tensors(trainer.model.state_dict(), restored.model.state_dict())
    assert_same_tensors(*(flatten_optimizers(each.optimizers) for each in (trainer, restored)))
    assert restored.state.h.dtype == DTYPES[now]
    assert torch.equal(restored.state.h, trainer.state.h.to(DTYPES[now]))
    assert torch.equal(restored.state.c, trainer.state.c)
    assert restored.scaler.state_dict() == fresh


CHANGES = [
    *(({}, {"precision": "fp16"}), ({"precision": "fp16"}, {})),
    *(({}, {"parallel": ParallelConfig(lane_groups=2)}), ({}, {"decay": "constant"})),
]


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_after_a_change_a_resume_is_exact_again(checkpoints, small_split, before, now):
    first, changed, resumed = make_trainer(**before), make_trainer(**now), make_trainer(**now)
    for trainer, steps in ((first, 2), (changed, 3)):
        checkpoints.restore(trainer)
        train(trainer, small_split, steps)
        checkpoints.save(trainer, PROFILE, {})
    checkpoints.restore(resumed)
    for each in (changed, resumed):
        train(each, small_split, 3)
    assert resumed.progress.step == 8
    assert_same_training(changed, resumed)


def test_checkpoints_of_earlier_versions_are_read(checkpoints, small_split):
    """Without a count of overflows, and with three more numbers of LAMB's last step."""
    saved_by(checkpoints, small_split, make_trainer("fp16", clip_norm=1.0), 2)
    path = checkpoints.complete()[-1] / checkpoint.LANES_FILE
    tensors = load_tensors(path)
    del tensors["row_overflows"]
    save_tensors(path, tensors)
    restored = make_trainer("fp16", clip_norm=1.0)
    checkpoints.restore(restored)
    assert restored.close_row()["overflows"] == 0
    trainer, restored = (make_trainer(name="lamb") for _ in range(2))
    saved_by(checkpoints, small_split, trainer, steps=2)
    path = checkpoints.complete()[-1] / checkpoint.optimizer_file(0)
    tensors = load_tensors(path)
    places = {name.split(".")[0] for name in tensors}
    shown = product(places, ("weight_norm", "adam_norm", "trust_ratio"))
    save_tensors(path, tensors | {f"{place}.{kind}": torch.ones(()) for place, kind in shown})
    checkpoints.restore(restored)
    assert_same_tensors(*(flatten_optimizers(each.optimizers) for each in (trainer, restored)))


def test_the_random_state_is_part_of_it(checkpoints, small_split):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    torch.manual_seed(11)
    checkpoints.save(trainer, PROFILE, {})
    expected = torch.rand(3)
    torch.rand(50)
    checkpoints.restore(make_trainer())
    assert torch.equal(torch.rand(3), expected)


def test_the_newest_are_kept_and_each_is_a_model(tmp_path, small_split, subwords, subword_model):
    checkpoints = Checkpoints(tmp_path, keep=2, corpus_fingerprint="abc", tokenizer=subwords)
    trainer = make_trainer(model=subword_model)
    for _ in range(4):
        train(trainer, small_split, 1)
        checkpoints.save(trainer, PROFILE, {"step": trainer.progress.step})
    assert [path.name for path in checkpoints.complete()] == ["step-00000003", "step-00000004"]
    loaded = load_model(checkpoints.complete()[-1])
    assert loaded.provenance == {"step": 4}
    assert loaded.profile == PROFILE
    assert loaded.tokenizer.fingerprint == subwords.fingerprint
    assert_same_tensors(trainer.model.state_dict(), loaded.model.state_dict())


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"lanes": 2}, "data.lanes is 2, was 3; put the old value back"),
        ({"hidden_size": 16}, "model.hidden_size is 16, was 8; put the old value back"),
        ({"cell": "lstm"}, "model.cell is lstm, was mlstm; put the old value back"),
        ({"name": "muon"}, "optim.name is muon, was adam; put the old value back"),
        (
            {"lanes": 2, "name": "sgd"},
            "data.lanes is 2, was 3, optim.name is sgd, was adam; put the old values back",
        ),
    ],
)
def test_a_config_that_an_intact_checkpoint_contradicts_is_what_is_to_be_fixed(
    checkpoints, small_split, now, said
):
    saved_by(checkpoints, small_split)
    with pytest.raises(InputError) as refused:
        checkpoints.restore(make_trainer(**now))
    config = checkpoints.folder.parent / "config.toml"
    place = f"{config}: differs from what step-00000001 was saved with: "
    assert str(refused.value) == place + said
    other = Checkpoints(checkpoints.folder, keep=2, corpus_fingerprint="xyz")
    with pytest.raises(InputError, match=r"another corpus \(abc, now xyz\)"):
        other.restore(make_trainer())


class ScaledPeers(World):
    """One of three ranks; the others' loss is the double and the fourfold of its own."""

    def sum(self, tensor):
        return tensor

    def gather(self, tensor):
        return torch.stack([tensor, 2 * tensor, 4 * tensor])

    def gather_lanes(self, own, total, everywhere=True):
        return own


@pytest.mark.parametrize("rank", [0, 1])
def test_the_main_rank_alone_saves_and_it_saves_the_loss_of_every_rank(
    checkpoints, small_split, rank
):
    trainer = make_trainer()
    train(trainer, small_split, 1)
    trainer.world = ScaledPeers(rank, 3, torch.device("cpu"))
    checkpoints.save(trainer, PROFILE, {})
    saved = checkpoints.complete()
    assert len(saved) == (rank == 0)
    for folder in saved:
        nats = load_tensors(folder / checkpoint.LANES_FILE)["row_nats"].flatten()
        assert torch.equal(nats, trainer.nats * torch.tensor([1, 2, 4]))
        alone = make_trainer()
        checkpoints.restore(alone)
        assert float(alone.nats) == pytest.approx(7 * float(trainer.nats))  # of all that saved it


@pytest.mark.parametrize("origin", [{"model": "held", "step": 9}, None])
def test_the_origin_of_the_first_weights_is_kept_with_the_run(checkpoints, small_split, origin):
    trainer, resumed = make_trainer(), make_trainer()
    trainer.progress.began_from = origin
    saved_by(checkpoints, small_split, trainer)
    if origin is None:
        path = checkpoints.complete()[-1] / "training.json"
        content = read_json(path)
        del content["progress"]["began_from"]  # as before there was one
        write_json(path, content, "part of a folder")
    checkpoints.restore(resumed)
    assert resumed.progress.began_from == origin


CONFIG = ModelConfig(hidden_size=8, embedding_size=4)


def load_weights(model, name, *of_corpus):
    return StartModel.open(name, model.config, *of_corpus).load_into(model)


@pytest.fixture
def trained(tmp_path):
    save_model(tmp_path / "trained", build_model(CONFIG, seed=1), PROFILE, {})
    return str(tmp_path / "trained")


def test_a_run_begins_with_the_given_models_weights_and_keeps_their_origin(tmp_path):
    before = {"model": "older", "step": 3}
    history = {"step": 9, "characters": 70, "git_revision": "abc", "began_from": before}
    first, provenance = build_model(CONFIG, seed=1), {**history, "hardware": {"cores": 2}}
    save_model(tmp_path / "held", first, PROFILE, provenance)
    config = ModelConfig(hidden_size=8, embedding_size=4, forget_gate_bias=2.0)
    model = build_model(config, seed=5)
    origin = load_weights(model, str(tmp_path / "held"), "openai")
    assert origin == {"model": "held", **history}  # without the folders before
    assert_same_tensors(model.state_dict(), first.state_dict())


@pytest.mark.parametrize(
    ("changes", "profile", "remedy"),
    [
        ({"hidden_size": 16}, "openai", r"trained with model\.hidden_size 8; set the same"),
        ({}, "raw", "prepare it with --text-profile openai"),
        ({"cell": "transformer"}, "openai", r"was trained with model\.cell mlstm; set the same$"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(trained, changes, profile, remedy):
    config = ModelConfig(**{"hidden_size": 8, "embedding_size": 4} | changes)
    with pytest.raises(InputError, match=remedy):
        load_weights(build_model(config, seed=0), trained, profile)


def test_another_tokenizer_than_the_corpuss_is_refused(tmp_path, subword_model, subwords, trained):
    save_model(tmp_path / "subwords", subword_model, PROFILE, {}, tokenizer=subwords)
    with pytest.raises(InputError, match="the corpus: its tokenizer is bytes"):
        load_weights(build_model(CONFIG, seed=0), str(tmp_path / "subwords"), "openai")
    with pytest.raises(InputError, match="the corpus: its tokenizer is bpe"):
        load_weights(subword_model, trained, "openai", subwords)
    fresh = build_model(subword_model.config, seed=0)
    load_weights(fresh, str(tmp_path / "subwords"), "openai", subwords)
    assert torch.equal(fresh.decoder.weight, subword_model.decoder.weight)
