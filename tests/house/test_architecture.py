"""Imports run one way: between packages, folders and files."""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mlstm_sentiment
from tests.house.sources import PACKAGES, SOURCES, TOP, imports_of, parsed
from tests.support.runs import ROOT

# The library's ground floor: what the laboratory may import of it.
GROUND = {
    f"mlstm_sentiment.{name}"
    for name in (
        *("bounds", "errors", "version"),
        *("text", "files", "reading", "engine"),
    )
}
# Which packages, or parts of them, each may import. Transfer saves what it fits as a head, and the
# command line is one for the library's commands, main.py and the scripts. Fine-tuning has a step, a
# schedule, a loss, a stop and a folder of its own as pretraining has.
ALLOWED = {
    "mlstm_sentiment": set(),
    "model": GROUND,
    "data_utils": GROUND | {"model.kernels"},
    "training": GROUND | {"mlstm_sentiment.commands.program", "model", "data_utils"},
    "transfer": GROUND
    | {f"mlstm_sentiment.{name}" for name in ("commands.options", "head", "units")}
    | {"model", "data_utils"}
    | {
        f"training.{name}"
        for name in (
            "optimizers.optim",
            "runs.checkpoint_store",
            "runs.run_directory",
            "runs.signals",
        )
    },
    "configs": GROUND | {"mlstm_sentiment.commands", "model", "data_utils", "training"},
    "scaling": GROUND | {"model", "data_utils", "training", "configs"},
}
LEAVES = {"scripts", "experiments", "command"}  # nothing imports them; scripts import `command`
FRONTS = {"benchmark.py", "plan.py"}  # the scripts that are commands of studies
NEEDS = {
    "mlstm_sentiment": {"numpy", "safetensors", "filelock"},
    "model": {"torch", "numpy", "safetensors"},
}
# The one module that needs each.
LAZY = {
    "mlstm_sentiment/engine/featurizer.py": {"sklearn", "pandas"},  # its tags; a table of features
    "mlstm_sentiment/head/sentiment_classifier.py": {"sklearn"},  # its tags, when scikit-learn asks
    "mlstm_sentiment/head/answers.py": {"pandas"},  # of a table of results
    "mlstm_sentiment/reading/encodings.py": {"charset_normalizer"},  # of a table that is not UTF-8
    "model/kernels/triton/kernels.py": {"triton"},
    "mlstm_sentiment/files/shipped.py": {"huggingface_hub"},
    "mlstm_sentiment/text/subwords.py": {"sentencepiece"},
    "mlstm_sentiment/text/profiles.py": {"anyascii"},
    "mlstm_sentiment/reading/inputs.py": {"isal"},
    "mlstm_sentiment/reading/tables.py": {"pyarrow"},
    "mlstm_sentiment/reading/workbooks.py": {"pandas", "openpyxl"},
    "mlstm_sentiment/reading/progress.py": {"tqdm"},
    "mlstm_sentiment/server/application.py": {"starlette", "uvicorn"},
}


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_point_inwards(package):
    for path in (ROOT / package).rglob("*.py"):
        for name in imports_of(path):
            top = name.split(".")[0]
            if top in PACKAGES and top != package:
                parts = name.split(".")
                whole = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
                assert whole & ALLOWED[package], f"{path} may not import {name}"


def imported_files(path):
    """Yield the files of the project that a file imports, for type checkers too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1].relative_to(ROOT).parts if node.level else ()
            module = [*base, *(node.module or "").split(".")] if node.module else [*base]
            names = [[*module, alias.name] for alias in node.names]
        else:
            continue
        for parts in names:  # of a module, of a name in it, or of a package
            for candidate in (parts, parts[:-1]):
                file = ROOT.joinpath(*candidate)
                if file.with_suffix(".py").is_file():
                    yield file.with_suffix(".py")
                    break
                if (file / "__init__.py").is_file():
                    yield file / "__init__.py"
                    break


FRONT_DOORS = ("__init__.py", "__main__.py")


def is_front_door(path):
    """Whether a file is the entrance of a whole package, which nothing in the package imports."""
    return path.name in FRONT_DOORS and path.parent.parent == ROOT


def check_no_circle(arrows):
    """Fail, and name it, if there is a circle among files or folders: {one: those it imports}."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        circle = [str(path.relative_to(ROOT)) for path in error.args[1]]
        pytest.fail(f"these import each other: {' <- '.join(circle)}")


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package):
    """No circle of files and none of folders; a file counts for the folder that it lies in.

    So a folder that imports its subfolder is not imported by it. The entrance of a package stands
    above all of it.
    """
    files: dict[Path, set[Path]] = {}
    folders: dict[Path, set[Path]] = {}
    for path in (ROOT / package).rglob("*.py"):
        imported = {file for file in imported_files(path) if ROOT / package in file.parents}
        assert not any(map(is_front_door, imported)), f"{path} imports its package's entrance"
        files[path] = imported - {path}
        if not is_front_door(path):
            others = {file.parent for file in imported} - {path.parent}
            folders.setdefault(path.parent, set()).update(others)
    check_no_circle(files)
    check_no_circle(folders)


def test_nothing_imports_the_leaves():
    product = [path for name in (*PACKAGES, "scripts") for path in (ROOT / name).rglob("*.py")]
    for path in [*product, *TOP]:
        leaves = {name.split(".")[0] for name in imports_of(path)} & LEAVES
        is_script = path.parent == ROOT / "scripts"
        allowed = {"command"} if is_script else set()
        allowed |= {"experiments"} if is_script and path.name in FRONTS else set()
        assert leaves <= allowed, path


@pytest.mark.parametrize("package", NEEDS)
def test_the_library_and_the_network_need_little(package):
    for path in (ROOT / package).rglob("*.py"):
        needed = {name.split(".")[0] for name in imports_of(path)} - set(sys.stdlib_module_names)
        extra = LAZY.get(path.relative_to(ROOT).as_posix(), set())
        assert needed - set(PACKAGES) <= NEEDS[package] | extra, path


def test_nothing_is_pickled():
    for path in SOURCES:
        assert not {"pickle", "joblib", "dill"} & set(imports_of(path)), path


def test_python_lists_the_public_names_alone():
    assert {*mlstm_sentiment.__all__, "__version__"} == set(dir(mlstm_sentiment))
