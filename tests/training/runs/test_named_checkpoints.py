"""Going back to a checkpoint: it stays, what came after it becomes a run of its own."""

import pytest

from model.files.storage import write_json
from training.runs.named_checkpoints import TRAINING_FILE, go_back
from training.runs.run_directory import PretrainingDirectory


@pytest.mark.parametrize(("name", "moved"), [("step-00000002", True), ("step-00000004", False)])
def test_a_checkpoint_that_is_gone_back_to_stays(tmp_path, name, moved):
    run = PretrainingDirectory(tmp_path)
    for step in (2, 4):
        folder = run.checkpoints / f"step-{step:08d}"
        folder.mkdir(parents=True)
        write_json(folder / TRAINING_FILE, {"progress": {"step": step}})
    run.config.write_text("seed = 0")
    go_back(run, name)
    names = [path.name for path in sorted(run.checkpoints.iterdir())]
    assert names == (["step-00000002"] if moved else ["step-00000002", "step-00000004"])
    aside = tmp_path / "aside-step-00000004" / "checkpoint"
    assert [path.name for path in aside.glob("*")] == ["step-00000004"] * moved
