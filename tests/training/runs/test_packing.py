"""A run packed into one file can be unpacked and resumed."""

import contextlib
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from model.errors import InputError
from tests.support.damage import damaged_bytes
from tests.support.runs import assert_refused, rows_of, run
from training.runs.packing import pack_run, unpack_run

RUN = Path("tests/fixtures/v1/run")
STEP = Path("checkpoint/step-00000010")
FILES = ["config.toml", "metrics.jsonl"]
FILES += [str(STEP / name) for name in ("config.json", "lanes.safetensors", "training.json")]
TENSORS = ("model.safetensors", "optimizer.safetensors")


@pytest.fixture
def packed(tmp_path):
    """The frozen run as it is packed unless told otherwise."""
    pack_run(RUN, tmp_path / "run.tar.zst", weights="fp32", moments="bf16")
    return tmp_path / "run.tar.zst"


def tensors_of(folder, name):
    return load_file(folder / STEP / name)


def test_without_rounding_every_tensor_comes_back(tmp_path):
    told = pack_run(RUN, tmp_path / "run.tar.zst", weights="fp32", moments="fp32")
    unpack_run(tmp_path / "run.tar.zst", tmp_path / "back")
    assert (told.step, told.rounding) == (10, {})
    for name in [*FILES, *(str(STEP / name) for name in TENSORS)]:
        assert (tmp_path / "back" / name).read_bytes() == (RUN / name).read_bytes(), name


@pytest.mark.parametrize("weights", ["fp32", "bf16"])
def test_rounded_tensors_are_the_nearest_in_bfloat16(tmp_path, weights):
    told = pack_run(RUN, tmp_path / "run.tar.zst", weights=weights, moments="bf16")
    unpack_run(tmp_path / "run.tar.zst", tmp_path / "back")
    rounded = TENSORS if weights == "bf16" else TENSORS[1:]
    assert told.rounding.keys() == set(rounded)
    assert all(0 < change < 2**-8 for change in told.rounding.values())  # 8 bits, half of the last
    for name in TENSORS:
        after = tensors_of(tmp_path / "back", name)
        for key, tensor in tensors_of(RUN, name).items():
            expected = tensor.bfloat16() if name in rounded and tensor.ndim else tensor
            assert torch.equal(after[key], expected), key


def test_a_checkpoint_that_is_being_written_is_left_alone(tmp_path):
    """The run may be under way: what it has not finished is neither removed nor packed."""
    shutil.copytree(RUN, tmp_path / "run")
    partial = tmp_path / "run/checkpoint/.step-00000020.partial"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    output = tmp_path / "run.tar.zst"
    assert pack_run(tmp_path / "run", output, weights="fp32", moments="fp32").step == 10
    assert (partial / "model.safetensors").read_bytes() == b"half"


def test_a_checkpoint_that_the_run_removes_meanwhile_is_told(tmp_path, monkeypatch):
    def removed(source, target):
        shutil.rmtree(source)
        raise shutil.Error([(str(source), str(target), "No such file or directory")])

    shutil.copytree(RUN, tmp_path / "run")
    monkeypatch.setattr("training.runs.packing.shutil.copytree", removed)
    with pytest.raises(InputError, match="the run has removed it; pack a newer one"):
        pack_run(tmp_path / "run", tmp_path / "run.tar.zst", weights="fp32", moments="fp32")
    assert not (tmp_path / "run.tar.zst").exists()


@pytest.mark.parametrize("largest_file", [900, 20_000], indirect=True)
@pytest.mark.usefixtures("largest_file")
def test_a_disk_too_small_is_named_and_nothing_stays(tmp_path):
    """Too small for the checkpoint's files, which are copied first."""
    with pytest.raises(OSError, match=r"File too large: '.*run\.tar\.zst'$"):
        pack_run(RUN, tmp_path / "run.tar.zst", weights="fp32", moments="fp32")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("largest_file", [16_500], indirect=True)
def test_a_disk_too_small_to_unpack_is_named_and_nothing_stays(packed, tmp_path, largest_file):
    with pytest.raises(OSError, match=r"File too large: '.*back'$"):
        unpack_run(packed, tmp_path / "back")
    assert list(tmp_path.iterdir()) == [packed]


def test_a_kept_checkpoint_is_packed_with_the_rows_that_led_to_it(tmp_path):
    shutil.copytree(RUN, tmp_path / "run")
    shutil.copytree(tmp_path / "run" / STEP, tmp_path / "run/checkpoint/mine")
    row = '{"step": 9, "of": "mine"}\n'
    (tmp_path / "run/metrics-mine.jsonl").write_text(row + '{"step": 11}\n')
    pack_run(tmp_path / "run", tmp_path / "run.tar.zst", "mine", weights="fp32", moments="fp32")
    unpack_run(tmp_path / "run.tar.zst", tmp_path / "back")
    assert (tmp_path / "back/metrics.jsonl").read_text() == row


def test_an_unpacked_run_resumes(packed, tmp_path):
    process = run("scripts/pack_run.py", packed, "--output", tmp_path / "back")
    assert process.returncode == 0, process.stderr
    process = run("main.py", "--resume", tmp_path / "back", "--train.steps", 12)
    assert process.returncode == 0, process.stderr
    assert [row["step"] for row in rows_of(tmp_path / "back")] == [5, 10, 12]
    assert (tmp_path / "back/model/model.safetensors").is_file()


def test_a_packed_file_is_replaced_only_if_asked(packed, tmp_path, run_here):
    before = packed.read_bytes()
    command = ("scripts/pack_run.py", RUN, "--output", packed, "--moments", "fp32")
    assert_refused(run_here(*command), f"{packed}: exists already", "or add --overwrite")
    assert packed.read_bytes() == before
    assert run_here(*command, "--overwrite").returncode == 0
    assert len(packed.read_bytes()) > len(before)
    refused = run_here("scripts/pack_run.py", packed, "--output", tmp_path / "new", "--overwrite")
    assert_refused(refused, "--overwrite is for packing a run")


@pytest.mark.parametrize("name", ["run.tar.gz", "run.TGZ", "run.zip", "run.tar"])
def test_a_name_of_another_format_is_refused(tmp_path, run_here, name):
    process = run_here("scripts/pack_run.py", RUN, "--output", tmp_path / name)
    assert_refused(process, f"{name}: a packed run is a tar archive under Zstandard", ".tar.zst")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_packed_or_unpacked_is_refused(packed, tmp_path):
    with pytest.raises(InputError, match="not a run directory"):
        pack_run(tmp_path, tmp_path / "x", weights="fp32", moments="bf16")
    with pytest.raises(InputError, match="no checkpoint y; there are: step-00000010"):
        pack_run(RUN, tmp_path / "x", "y", weights="fp32", moments="bf16")
    with pytest.raises(InputError, match="exists already"):
        unpack_run(packed, tmp_path)


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_is_refused(packed, tmp_path, data):
    whole = packed.read_bytes()
    content = data.draw(damaged_bytes(whole))
    (tmp_path / "damaged").write_bytes(content)
    with contextlib.suppress(InputError):
        unpack_run(tmp_path / "damaged", tmp_path / "back")
        assert content == whole
    assert not list(tmp_path.glob(".back*"))
    if (tmp_path / "back").exists():
        (tmp_path / "back").rename(tmp_path / f"whole-{len(list(tmp_path.iterdir()))}")
