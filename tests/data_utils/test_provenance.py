"""The origin of a result is recorded without the paths of anybody's files."""

import os
import platform
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from data_utils.provenance import describe_origin, git_revision, processor_name


def started(monkeypatch, module):
    """Make this process look started as a module by its name, or as a script without one."""
    main = ModuleType("__main__")
    main.__spec__ = module and ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_origin_names_revision_versions_and_hardware(monkeypatch, set_command_line):
    started(monkeypatch, None)
    set_command_line("/home/me/main.py", "--data.corpus", "/home/me/reviews")
    origin = describe_origin()
    assert origin["command"] == "main.py --data.corpus reviews"
    words = ["main.py", "--data=../me/x=y.csv", "--split=98,1,1", "a=/home/me/b=/home/me/c"]
    set_command_line(*words)
    assert describe_origin()["command"] == "main.py --data=x=y.csv --split=98,1,1 a=c"
    set_command_line("main.py", "--data.corpus", "caf\udce9")  # not UTF-8
    assert describe_origin()["command"] == "main.py --data.corpus 'caf?'"
    assert origin["versions"]["torch"]
    assert origin["hardware"]["cores"] >= 1
    assert origin["hardware"]["processor"]
    assert set(origin["hardware"]["bf16_instructions"]) <= {"amx_bf16", "avx512_bf16"}
    assert origin["git_revision"]


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (
            "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n",
            "AMD EPYC cpu family 25 model 17",
        ),
        (  # ARM: without a name
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n",
            "aarch64 CPU implementer 0x41 CPU part 0xd0c",
        ),
        ("", "aarch64"),
        (None, "aarch64"),
    ],
)
def test_every_processor_has_a_name(monkeypatch, tmp_path, cpuinfo, expected):
    monkeypatch.setattr(platform, "processor", str)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    if cpuinfo is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
    assert processor_name(tmp_path) == expected


def test_a_module_is_named_as_for_python_m_and_no_revision_outside_of_git(
    monkeypatch, set_command_line, tmp_path
):
    started(monkeypatch, "experiments.neuron.run")
    set_command_line("/home/me/run.py", "--data", "/home/me/data")
    assert describe_origin()["command"] == "-m experiments.neuron.run --data data"
    assert git_revision(tmp_path) == "unknown"


def test_changed_results_do_not_make_a_tree_dirty_but_code_does(tmp_path):
    study, code = tmp_path / "experiments" / "one", tmp_path / "main.py"
    results = study / "results" / "a.json", study / "results.json"
    results[0].parent.mkdir(parents=True)
    for path in (*results, code):
        path.write_text("1")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    clean = git_revision(tmp_path)
    assert len(clean) == 12
    index = (tmp_path / ".git" / "index").read_bytes()
    os.utime(code, (1, 1))  # git would write its index anew
    for path in results:
        path.write_text("2")
    assert git_revision(tmp_path) == clean
    assert (tmp_path / ".git" / "index").read_bytes() == index
    code.write_text("2")
    assert git_revision(tmp_path) == f"{clean}-dirty"
