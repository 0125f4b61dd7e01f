"""Going back to a checkpoint: it stays, what came after it becomes a run of its own."""

import shutil

import pytest

from model.errors import InputError
from model.files.storage import recover_folders, write_json
from training.runs.named_checkpoints import (
    BEFORE_COOLDOWN,
    find_checkpoint,
    go_back,
    keep_newest,
    last_until,
    rows_until,
    saved_step,
)
from training.runs.run_directory import TRAINING_FILE, PretrainingDirectory


@pytest.fixture
def a_run(tmp_path):
    """A run with checkpoints of steps 2 and 4, and the model of the later one."""
    run = PretrainingDirectory(tmp_path)
    for step in (2, 4):
        add_checkpoint(run, step)
    run.model.mkdir()
    (run.model / "of").write_text("4")
    run.config.write_text("seed = 0")
    return run


def add_checkpoint(run, step, name="step", weights=""):
    folder = run.checkpoints / f"{name}-{step:08d}"
    folder.mkdir(parents=True)
    write_json(folder / TRAINING_FILE, {"progress": {"step": step}})
    (folder / "ema").mkdir()
    (folder / "ema/model.safetensors").write_text(weights)


def names_in(folder):
    return sorted(path.name for path in folder.glob("*"))


def test_the_last_checkpoint_up_to_a_step_is_of_two_the_one_kept_before_a_cooldown(a_run):
    def last(step):
        path = last_until(a_run.checkpoints, step)
        return None if path is None else path.name

    two, four = "step-00000002", "step-00000004"
    assert [last(step) for step in (1, 2, 3, 4, 9)] == [None, two, two, four, four]
    add_checkpoint(a_run, 4, BEFORE_COOLDOWN)
    assert [last(step) for step in (3, 4)] == [two, f"{BEFORE_COOLDOWN}-00000004"]


@pytest.mark.parametrize("content", ["torn", '{"progress": {"step": "four"}}', None])
def test_a_description_that_says_no_step_comes_with_the_advice_to_go_back(a_run, content):
    newest = find_checkpoint(a_run.checkpoints, None)
    (newest / TRAINING_FILE).unlink()
    if content is not None:
        (newest / TRAINING_FILE).write_text(content)
    with pytest.raises(InputError, match=f"; remove {newest} to continue from the one before"):
        saved_step(newest)


@pytest.mark.parametrize(("name", "moved"), [("step-00000002", True), ("step-00000004", False)])
def test_a_checkpoint_that_is_gone_back_to_stays(a_run, name, moved):
    go_back(a_run, name)
    left = ["step-00000002"] if moved else ["step-00000002", "step-00000004"]
    assert names_in(a_run.checkpoints) == left
    aside = a_run.folder / "aside-step-00000004"
    assert names_in(aside / "checkpoint") == ["step-00000004"] * moved
    assert a_run.model.is_dir() is not moved
    assert (aside / "model").is_dir() is moved


def test_an_ending_of_the_same_length_does_not_replace_the_one_before(a_run):
    for number in range(3):
        a_run.config.write_text(f"seed = {number}")
        go_back(a_run, "step-00000002")
        add_checkpoint(a_run, 4)
    seeds = {path.name: (path / "config.toml").read_text() for path in a_run.folder.glob("aside-*")}
    assert seeds == {
        "aside-step-00000004": "seed = 0",
        "aside-step-00000004-2": "seed = 1",
        "aside-step-00000004-3": "seed = 2",
    }


def test_another_branchs_checkpoint_of_the_same_step_goes_aside(a_run):
    add_checkpoint(a_run, 4, "plain", "plain")  # of the same size, as all of a model are
    (a_run.checkpoints / "step-00000004/ema/model.safetensors").write_text("other")
    go_back(a_run, "plain-00000004")
    newest, aside = a_run.checkpoints / "step-00000004", a_run.folder / "aside-step-00000004"
    assert (newest / "ema/model.safetensors").read_text() == "plain"
    assert (aside / "checkpoint/step-00000004/ema/model.safetensors").read_text() == "other"
    assert (aside / "model/of").read_text() == "4"
    assert not a_run.model.exists()
    go_back(a_run, "plain-00000004")  # once more, as after a kill: nothing is new
    assert names_in(a_run.folder) == ["aside-step-00000004", "checkpoint", "config.toml"]


def write_model(folder, step, best):
    folder.mkdir(exist_ok=True)
    (folder / "of").write_text(str(step))
    provenance = {"step": step, "best_valid_bits_per_character": best}
    write_json(folder / "config.json", {"provenance": provenance})


@pytest.mark.parametrize(("best", "stays"), [(1.25, True), (1.5, False), (None, False)])
def test_the_model_stays_that_was_the_best_at_the_checkpoint(a_run, best, stays):
    """Another score is of another branch's model, none of a run that evaluates nothing."""
    progress = {"step": 2, "best_bits_per_character": None if best is None else 1.25}
    write_json(a_run.checkpoints / "step-00000002" / TRAINING_FILE, {"progress": progress})
    write_model(a_run.model, 1, best)
    go_back(a_run, "step-00000002")
    assert a_run.model.exists() is stays
    assert (a_run.folder / "aside-step-00000004/model/of").read_text() == "1"


@pytest.mark.parametrize("best", [1.25, 1.5])
def test_the_model_from_before_a_cooldown_comes_back(a_run, best):
    """Unless it was a later one than the checkpoint's, as after a kill between the two."""
    progress = {"step": 4, "best_bits_per_character": 1.25}
    write_json(a_run.checkpoints / "step-00000004" / TRAINING_FILE, {"progress": progress})
    write_model(a_run.model, 3, best)
    keep_newest(a_run, BEFORE_COOLDOWN)
    write_model(a_run.model, 6, 1.125)
    for _ in range(2):  # once more, as after a kill
        go_back(a_run, "before-cooldown-00000004")
        assert a_run.model.exists() is (best == 1.25)
    assert (a_run.folder / "aside-step-00000006/model/of").read_text() == "6"
    assert not a_run.model.exists() or (a_run.model / "of").read_text() == "3"


def test_a_branch_that_has_not_come_as_far_goes_aside_whole(a_run):
    """A kept checkpoint of a later step than the run's last one is of another branch."""
    keep_newest(a_run, BEFORE_COOLDOWN)
    name = f"{BEFORE_COOLDOWN}-00000004"
    progress = {"step": 4, "best_bits_per_character": 1.25}
    write_json(a_run.checkpoints / name / TRAINING_FILE, {"progress": progress})
    write_model(a_run.folder / f"model-{name}", 4, 1.25)
    go_back(a_run, "step-00000002")  # and from there on to step 3
    add_checkpoint(a_run, 3)
    write_model(a_run.model, 3, 1.5)
    a_run.metrics.write_text("rows of that branch")
    for _ in range(2):  # once more, as after a kill
        go_back(a_run, name)
        assert names_in(a_run.checkpoints) == [name, "step-00000004"]
        assert (a_run.model / "of").read_text() == "4"
    aside = a_run.folder / "aside-step-00000003"
    assert names_in(aside / "checkpoint") == ["step-00000002", "step-00000003"]
    assert (aside / "model/of").read_text() == "3"
    assert (aside / "metrics.jsonl").read_text() == "rows of that branch"
    assert len(list(a_run.folder.glob("aside-*"))) == 2


@pytest.mark.parametrize("place", ["model", "checkpoint/step-00000004"])
def test_a_kill_while_going_back_leaves_no_part_under_a_name(a_run, monkeypatch, place):
    """What is left of the run is whole, what came later is set aside, and it can be repeated."""
    doomed = a_run.folder / place

    def remove(path, **options):
        held = sorted(path.rglob("*"))
        if held and (path == doomed or path.name.startswith(f".{doomed.name}.")):
            held[-1].unlink()
            raise KeyboardInterrupt
        rmtree(path, **options)

    rmtree = shutil.rmtree
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", remove)
        with pytest.raises(KeyboardInterrupt):
            go_back(a_run, "step-00000002")
    assert not doomed.exists()
    assert not a_run.model.exists()  # of a later step than what is gone on from
    recover_folders(a_run.checkpoints, a_run.files())  # as every start does
    go_back(a_run, "step-00000002")
    assert names_in(a_run.checkpoints) == ["step-00000002"]
    assert (a_run.folder / "aside-step-00000004/model/of").read_text() == "4"


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_kept_checkpoint_of_another_branch_stays_under_another_name(a_run, has_rows):
    for branch, times in (("one", 2), ("another", 1)):  # of one branch, one copy is enough
        (a_run.checkpoints / "step-00000004/ema/model.safetensors").write_text(branch)
        (a_run.model / "of").write_text(branch)
        if has_rows:
            a_run.metrics.write_text(branch)
        for _ in range(times):
            keep_newest(a_run, BEFORE_COOLDOWN)
    name = f"{BEFORE_COOLDOWN}-00000004"
    for copy, branch in ((name, "another"), (f"{name}-2", "one")):
        assert (a_run.checkpoints / copy / "ema/model.safetensors").read_text() == branch
        assert (a_run.folder / f"model-{copy}/of").read_text() == branch
        rows = rows_until(a_run, copy)
        assert rows.read_text() == branch if has_rows else rows == a_run.metrics
    assert not (a_run.checkpoints / f"{name}-3").exists()


def test_the_rows_that_led_to_a_kept_checkpoint_come_back_from_another_branch(a_run):
    name = f"{BEFORE_COOLDOWN}-00000004"
    a_run.metrics.write_text("rows of this branch")
    keep_newest(a_run, BEFORE_COOLDOWN)
    go_back(a_run, "step-00000002")
    add_checkpoint(a_run, 4, weights="other")
    a_run.metrics.write_text("rows of another branch")
    assert rows_until(a_run, "step-00000004") == rows_until(a_run, None) == a_run.metrics
    assert rows_until(a_run, name).read_text() == "rows of this branch"
    go_back(a_run, name)
    assert a_run.metrics.read_text() == "rows of this branch"
    aside = a_run.folder / "aside-step-00000004-2"
    assert (aside / "metrics.jsonl").read_text() == "rows of another branch"
