"""The package is a guest in its host's process: what it does not own, it leaves as it was."""

from tests.support.runs import done, run_anew

# What a process has that a library could change without being asked.
STATE = """
import ctypes, locale, logging, os, random, signal, sys, warnings
from pathlib import Path

def scheduling():
    # Policy, niceness, slice and cores of every thread.
    found, get_attributes = {}, {"x86_64": 315, "aarch64": 275}.get(os.uname().machine)
    tasks = Path("/proc/self/task")
    for thread in map(int, os.listdir(tasks) if tasks.is_dir() else ()):
        attributes = ctypes.create_string_buffer(48)
        if get_attributes:
            ctypes.CDLL(None).syscall(get_attributes, thread, attributes, 48, 0)
        found[thread] = (attributes.raw, sorted(os.sched_getaffinity(thread)))
    return found

def state():
    found = {
        "environment": dict(os.environ),
        "excepthook": sys.excepthook,
        "handlers": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "filters": list(warnings.filters),
        "log": (logging.root.level, list(logging.root.handlers)),
        "locale": locale.setlocale(locale.LC_ALL),
        "folder": os.getcwd(),
        "random": random.getstate(),
        "streams": [(s.encoding, s.errors) for s in (sys.stdout, sys.stderr)],
        "recursion": sys.getrecursionlimit(),
        "method": sys.modules["multiprocessing"].get_start_method(allow_none=True)
        if "multiprocessing" in sys.modules else None,
    }
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found |= {
            "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
            "dtype": torch.get_default_dtype(),
            "device": torch.get_default_device(),
            "gradients": torch.is_grad_enabled(),
            "matmul": torch.get_float32_matmul_precision(),
            "mkldnn": torch.backends.mkldnn.enabled,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "seed": torch.random.get_rng_state().tolist(),
        }
    return found

def assert_same(before):
    after = state()
    for name, value in before.items():
        assert after[name] == value, (name, value, after[name])
"""

USES = """
import sklearn.linear_model, torch
torch.set_num_threads(2)
signal.signal(signal.SIGTERM, lambda *_: None)
torch.ones(1 << 20).exp()  # the host's own work, which starts its threads
from model.kernels import crowding
crowding.MANY = crowding.FEW = -1.0  # as if every look found others on our cores
crowding.SECONDS_BETWEEN_LOOKS = 0.0
before, threads = state(), scheduling()
from mlstm_sentiment import SentimentClassifier, SentimentFeaturizer
from model.inference.weights import load_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
classifier = SentimentClassifier.from_pretrained("stars_512")
for _ in range(3):
    assert len(classifier.predict(["It works.", "It broke after a day."])) == 2
SentimentFeaturizer.from_pretrained("stars_512").transform(["It works."])
load_model("stars_512")
build_model(ModelConfig(hidden_size=8), seed=0)
torch.ones(1 << 20).exp()
assert_same(before)
after = scheduling()
for thread in threads.keys() & after.keys():
    assert after[thread] == threads[thread], (thread, threads[thread], after[thread])
child = os.fork()
if child == 0:
    os._exit(torch.get_num_threads() != 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""

IMPORTS = """
import multiprocessing, pkgutil
import torch._dynamo, torch.utils.tensorboard, pandas, sklearn.linear_model, matplotlib
from importlib import import_module
before = state()
for name in ("model", "data_utils", "training", "transfer", "scaling", "configs", "experiments"):
    for found in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
        if not found.name.endswith("__main__") and "triton" not in found.name:
            import_module(found.name)
assert_same(before)
"""


def assert_succeeds(code):
    done(run_anew("-W", "ignore", "-c", STATE + code, env={"OMP_NUM_THREADS": "2"}))


def test_classifying_changes_nothing_of_the_hosts():
    assert_succeeds(USES)


def test_importing_every_module_changes_nothing_of_the_hosts():
    assert_succeeds(IMPORTS)


def test_our_own_commands_adapt_their_process_from_their_start():
    code = (
        "from configs.command import run; from model.kernels.cores import owns_process; "
        "assert not owns_process(); run(lambda: print(owns_process()))"
    )
    process = run_anew("-c", code)
    assert (process.returncode, process.stdout) == (0, "True\n"), process.stderr
