"""The origin of a result is recorded without the paths of anybody's files."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from data_utils.provenance import describe_origin, git_revision


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
