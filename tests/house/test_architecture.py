"""The arrows between the packages, and the sizes that keep them readable."""

import ast
import re
import statistics
import subprocess
import sys
from pathlib import PurePath

import pytest

import model
from tests.house.sources import PACKAGES, SOURCES, TOP, imports_of, parsed
from tests.support.runs import ROOT

# What each package may import of ours; data_utils takes only these modules of model, transfer
# these of training: fine-tuning has a step, a schedule, a loss, a stop and a folder of its own as
# pretraining has.
ALLOWED = {
    "model": set(),
    "data_utils": {
        *(f"model.{name}" for name in ("bounds", "errors", "fused.cores")),
        *(f"model.files.{name}" for name in ("locks", "storage")),
        *(f"model.text.{name}" for name in ("profiles", "split", "tokenizer", "subwords")),
        *(f"model.reading.{name}" for name in ("inputs", "progress", "records", "texts")),
    },
    "training": {"model", "data_utils"},
    "transfer": {
        *("model", "data_utils"),
        *(
            f"training.{name}"
            for name in (
                *("objective", "progress", "optimizers.schedule", "optimizers.state"),
                *("runs.checkpoint_store", "runs.run_directory", "runs.signals"),
            )
        ),
    },
    "configs": {"model", "data_utils", "training"},
    "scaling": {"model", "data_utils", "training", "configs"},
}
LEAVES = {"scripts", "experiments", "command"}  # nothing imports them; scripts import `command`
MODEL_NEEDS = {"torch", "numpy", "safetensors", "filelock"}
# The one module that needs each.
LAZY = {
    "model/inference/featurizer.py": {"sklearn"},
    "model/classifiers/sentiment_classifier.py": {"sklearn"},  # its tags, when scikit-learn asks
    "model/fused/cuda/triton_kernels.py": {"triton"},
    "model/files/hub.py": {"huggingface_hub"},
    "model/pages/picture.py": {"matplotlib"},
    "model/text/subwords.py": {"sentencepiece"},
    "model/text/profiles.py": {"anyascii"},
    "model/reading/compression.py": {"isal"},
    "model/reading/parquet.py": {"pyarrow"},
    "model/reading/progress.py": {"tqdm"},
    "model/server/application.py": {"starlette"},
    "model/server/listening.py": {"starlette", "uvicorn", "h11"},
}


def functions_of(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_point_inwards(package):
    for path in (ROOT / package).rglob("*.py"):
        for name in imports_of(path):
            top = name.split(".")[0]
            if top in PACKAGES and top != package:
                allowed = ALLOWED[package]
                assert name in allowed or top in allowed, f"{path} may not import {name}"


def test_implementations_of_the_recurrence_know_no_layer():
    for path in (ROOT / "model/fused").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom):
                assert "layers" not in (node.module or "").split("."), path


def modules_in(path):
    """Paths, below the root and without an ending, of our modules that a file imports."""
    folder = path.relative_to(ROOT).parent
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            base = folder.parents[node.level - 2] if node.level > 1 else folder
            module = PurePath(*(node.module or "").split("."))
            yield (base if node.level else PurePath()) / module


def test_no_two_rooms_import_each_other():
    """Rooms are the folders in one package; what stands beside them may use them and be used."""
    arrows = {
        (room.name, module.parts[1])
        for package in PACKAGES
        for room in (ROOT / package).iterdir()
        if room.is_dir()
        for path in room.rglob("*.py")
        for module in modules_in(path)
        if module.parts[:1] == (package,) and len(module.parts) > 1
    }
    assert len(arrows) > 20
    assert not {(one, other) for one, other in arrows if one < other and (other, one) in arrows}


def test_nothing_imports_the_leaves():
    product = [path for name in (*PACKAGES, "scripts") for path in (ROOT / name).rglob("*.py")]
    for path in [*product, *TOP]:
        leaves = {name.split(".")[0] for name in imports_of(path)} & LEAVES
        assert leaves <= ({"command"} if path.parent == ROOT / "scripts" else set()), path


def test_no_test_imports_another():
    """What several tests use lies in a file of its own, which says what it is."""
    for path in (ROOT / "tests").rglob("*.py"):
        others = [name for name in imports_of(path) if ".test_" in name]
        assert not others, f"{path} imports {others[0]}"


def test_the_model_needs_little():
    for path in (ROOT / "model").rglob("*.py"):
        needed = {name.split(".")[0] for name in imports_of(path)} - set(sys.stdlib_module_names)
        extra = LAZY.get(path.relative_to(ROOT).as_posix(), set())
        assert needed <= MODEL_NEEDS | extra, path


def run_without(packages, code):
    """Run Python code where importing these packages, which are installed, is an error."""
    forbid = f"import sys; sys.modules |= dict.fromkeys({packages!r}); "
    subprocess.run([sys.executable, "-c", forbid + code], cwd=ROOT, check=True)


def test_reading_text_needs_no_torch():
    run_without(
        ["torch"], "from model.text.profiles import text_profile; text_profile('raw').encode('a')"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["classify", "--input", "nowhere.csv"],
        ["classify", "--text", "good", "--output", "answers.doc"],
        ["heatmap", "--input", "nowhere.csv"],
        ["heatmap", "--text", "good", "--output", "heatmap.jpg"],
        ["featurize", "--input", "nowhere.csv", "--output", "/tmp/features.npy"],
        ["evaluate", "--data", "nowhere.csv"],
        ["generate", "--model", "nowhere"],
        ["models"],
        ["--help"],
    ],
)
def test_a_command_looks_at_its_input_before_it_waits_for_torch(words):
    code = (
        "import contextlib; from model.commands.command_line import dispatch\n"
        "from model.errors import InputError\n"
        f"with contextlib.suppress(InputError, SystemExit): dispatch({words!r})"
    )
    run_without(["torch", "sklearn", "scipy"], code)


def test_a_classifier_needs_neither_scikit_learn_nor_what_else_is_heavy():
    run_without(
        ["sklearn", "scipy", "pandas", "sentencepiece", "huggingface_hub", "anyascii"],
        "from model import SentimentClassifier, load_model; load_model('tests/fixtures/v1/run'); "
        "SentimentClassifier.from_pretrained('tests/fixtures/v1/finetuned').predict(['so good'])",
    )


def test_files_and_functions_stay_readable():
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= 500, path
        for name, lines in functions_of(path):
            assert lines <= 60, f"{path}: {name} has {lines} lines"
    lengths = [lines for path in SOURCES for _, lines in functions_of(path)]
    assert statistics.median(lengths) <= 12


@pytest.mark.parametrize(
    ("part", "own", "trunk"),
    [
        ("adasum", {"adasum.py"}, {"exchange.py", "closed.py"}),
        ("flat_?exchange", {"flat.py"}, {"exchange.py"}),
        ("apex", {"nvidia_apex.py"}, {"optim.py"}),
        (r"\bshares import", set(), {"run.py"}),
    ],
)
def test_the_plain_path_names_no_optional_part(part, own, trunk):
    files = [path for name in ("training", "configs") for path in (ROOT / name).rglob("*.py")]
    naming = {
        path.name
        for path in [*files, ROOT / "main.py"]
        if re.search(part, path.read_text(), re.IGNORECASE)
    }
    assert naming == own | trunk


def test_kernels_stay_readable():
    for path in (path for end in ("cpp", "h") for path in (ROOT / "model").rglob(f"*.{end}")):
        lines = path.read_text().splitlines()
        assert len(lines) <= 450, path
        assert max(map(len, lines)) <= 100, path


def types_of(path):
    """The public classes and type aliases that a file defines at its top."""
    for node in parsed(path).body:
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (name for name in names if re.fullmatch("[A-Z]+[a-z][A-Za-z]*", name))


def test_a_type_has_a_name_of_its_own():
    owners = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path != ROOT / "data_utils/options.py":  # types of options, named as the options are
            for name in types_of(path):
                assert owners.setdefault(name, path) == path, name


def test_no_grab_bags_and_no_pickles():
    for path in SOURCES:
        assert path.stem not in {"utils", "helpers", "common", "misc"}, path
        assert not {"pickle", "joblib", "dill"} & set(imports_of(path)), path


def test_python_lists_every_public_name():
    assert set(model.__all__) | {"__version__"} <= set(dir(model))
