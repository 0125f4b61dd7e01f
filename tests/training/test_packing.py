"""A run packed into one file can be unpacked and resumed."""

import contextlib
import io
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from model.errors import InputError
from model.reading.compression import zstandard
from tests.support.damage import damaged_bytes
from tests.support.runs import assert_refused, done, rows_of, run
from training.packing import pack_run, unpack_run

RUN = Path("tests/fixtures/v1/run")
STEP = Path("checkpoint/step-00000010")
FILES = ["config.toml", "metrics.jsonl"]
FILES += [str(STEP / name) for name in ("config.json", "lanes.safetensors", "training.json")]
TENSORS = ("model.safetensors", "optimizer.safetensors")


@pytest.fixture
def packed(tmp_path):
    """The frozen run as it is packed by default."""
    pack_run(RUN, tmp_path / "run.tar.zst", weights="fp32", moments="bf16")
    return tmp_path / "run.tar.zst"


def there_and_back(tmp_path, run=RUN, name=None, weights="fp32", moments="fp32"):
    """Pack a run and unpack it; return what is said of the packed one, and the unpacked one."""
    packed = pack_run(run, tmp_path / "there.tar.zst", name, weights=weights, moments=moments)
    unpack_run(tmp_path / "there.tar.zst", tmp_path / "back")
    return packed, tmp_path / "back"


def assert_same_files(folder, expected):
    for name in [*FILES, *(str(STEP / name) for name in TENSORS)]:
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name


def tensors_of(folder, name):
    return load_file(folder / STEP / name)


def test_without_rounding_every_tensor_comes_back(tmp_path):
    packed, back = there_and_back(tmp_path)
    assert (packed.step, packed.rounding) == (10, {})
    assert_same_files(back, RUN)


@pytest.mark.parametrize("weights", ["fp32", "bf16"])
def test_rounded_tensors_are_the_nearest_in_bfloat16(tmp_path, weights):
    packed, back = there_and_back(tmp_path, weights=weights, moments="bf16")
    rounded = TENSORS if weights == "bf16" else TENSORS[1:]
    assert packed.rounding.keys() == set(rounded)
    changes = packed.rounding.values()
    assert all(0 < change < 2**-8 for change in changes)  # 8 bits, half of the last
    for name in TENSORS:
        after = tensors_of(back, name)
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


def test_a_checkpoint_that_the_run_removes_meanwhile_is_reported(tmp_path, monkeypatch):
    def removed(source, target):
        shutil.rmtree(source)
        raise shutil.Error([(str(source), str(target), "No such file or directory")])

    shutil.copytree(RUN, tmp_path / "run")
    monkeypatch.setattr("training.packing.shutil.copytree", removed)
    with pytest.raises(InputError, match="the run removed it meanwhile; pack a newer one"):
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
    _, back = there_and_back(tmp_path, tmp_path / "run", "mine")
    assert (back / "metrics.jsonl").read_text() == row


def test_an_unpacked_run_resumes(packed, tmp_path):
    done(run("scripts/pack_run.py", packed, "--output", tmp_path / "back"))
    done(run("main.py", "--resume", tmp_path / "back", "--train.steps", 12))
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
    with pytest.raises(InputError, match="no checkpoint y; available: step-00000010"):
        pack_run(RUN, tmp_path / "x", "y", weights="fp32", moments="bf16")
    with pytest.raises(InputError, match="exists already"):
        unpack_run(packed, tmp_path)


CUT = (RUN / STEP / "model.safetensors").read_bytes()[:-300]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("lanes.safetensors", None, "no such file"),
        ("config.json", b"{", "not JSON"),
        *((name, CUT, "damaged or cut short") for name in (*TENSORS, "optimizer-1.safetensors")),
    ],
)
def test_a_damaged_checkpoint_is_not_packed(tmp_path, name, content, complaint):
    shutil.copytree(RUN, tmp_path / "run")
    path = tmp_path / "run" / STEP / name
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}: {complaint}.*; no earlier checkpoint is left"):
        pack_run(tmp_path / "run", tmp_path / "run.tar.zst", weights="fp32", moments="fp32")
    assert not (tmp_path / "run.tar.zst").exists()


def test_only_the_files_of_a_run_are_packed(tmp_path):
    shutil.copytree(RUN, tmp_path / "run")
    (tmp_path / "run" / STEP / "notes.txt").write_text("mine")
    _, back = there_and_back(tmp_path, tmp_path / "run")
    assert not (back / STEP / "notes.txt").exists()


ONE = str(STEP / "optimizer-1.safetensors")


def a_file(name, content=b""):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def a_special(kind, content=b""):
    entry, _ = a_file(ONE, content)
    entry.type = kind
    return entry, content


def write_packed(path, entries):
    with zstandard().open(path, "wb") as file:
        for entry, content in entries:
            file.write(entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        file.write(bytes(1024))


def entries_of(packed):
    """Return the entries of a packed run with their content."""
    with zstandard().open(packed, "rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
        return [a_file(member.name, tar.extractfile(member).read()) for member in tar]


LARGE = 1 << 26  # bytes; zeros of that size take a few KB when packed
UNWANTED = {
    "a bomb of text": ([a_file("metrics.jsonl", bytes(LARGE))], "more than 1,000 times its size"),
    "a PAX header": ([a_special(tarfile.XHDTYPE, content=bytes(LARGE))], "does not belong in it"),
    "headers in headers": ([a_special(tarfile.GNUTYPE_LONGNAME)] * 3000, "does not belong in it"),
    "a sparse file": ([a_special(tarfile.GNUTYPE_SPARSE)], "does not belong in it"),
    "a link": ([a_special(tarfile.SYMTYPE)], "does not belong in it"),
    "a folder": ([a_special(tarfile.DIRTYPE)], "does not belong in it"),
    "a name twice": ([a_file("metrics.jsonl")] * 2, "'metrics.jsonl' is in it twice"),
    "a part of a checkpoint": (
        [a_file("checkpoint/.step-00000020.partial/training.json")],
        "does not belong in it",
    ),
    "a file beside the checkpoint": ([a_file("model/config.json")], "does not belong in it"),
    "a file elsewhere": ([a_file("../config.toml")], "does not belong in it"),
    "another checkpoint": (
        [a_file("checkpoint/step-00000020/training.json")],
        "it has 2 checkpoints",
    ),
    "a file of another checkpoint": (
        [a_file("checkpoint/step-00000020/config.json")],
        "'checkpoint/step-00000020/config.json' does not belong in it",
    ),
}


@pytest.mark.parametrize(("added", "message"), UNWANTED.values(), ids=UNWANTED)
def test_what_does_not_belong_in_a_packed_run_is_refused(packed, tmp_path, added, message):
    of_run = [pair for pair in entries_of(packed) if pair[0].name != "metrics.jsonl"]
    write_packed(tmp_path / "made.tar.zst", [*of_run, *added])
    with pytest.raises(InputError, match=f"made.tar.zst: not a packed run.*{message}"):
        unpack_run(tmp_path / "made.tar.zst", tmp_path / "back")
    assert {path.name for path in tmp_path.iterdir()} == {"run.tar.zst", "made.tar.zst"}


@pytest.mark.parametrize(
    "name", ["config.toml", *(str(STEP / name) for name in ("training.json", "lanes.safetensors"))]
)
def test_a_packed_run_that_lacks_a_file_is_refused(packed, tmp_path, name):
    write_packed(tmp_path / "made", [p for p in entries_of(packed) if p[0].name != name])
    with pytest.raises(InputError, match=r"it lacks|it has 0 checkpoints"):
        unpack_run(tmp_path / "made", tmp_path / "back")


def test_what_follows_the_end_is_refused(packed, tmp_path):
    with zstandard().open(packed, "ab") as file:
        file.write(bytes(LARGE))
    with pytest.raises(InputError, match="something follows its end"):
        unpack_run(packed, tmp_path / "back")


def test_a_run_packed_by_earlier_versions_unpacks(packed, tmp_path):
    """They wrote tar's default format."""
    older = io.BytesIO()
    with tarfile.open(fileobj=older, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in entries_of(packed):
            tar.addfile(entry, io.BytesIO(content))
    with zstandard().open(tmp_path / "older.tar.zst", "wb") as file:
        file.write(older.getvalue())
    unpack_run(tmp_path / "older.tar.zst", tmp_path / "back")
    unpack_run(packed, tmp_path / "new")
    assert_same_files(tmp_path / "back", tmp_path / "new")


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
