"""A process that has a model may be forked, and its child computes."""

import pickle

import pytest

from model.inference.weights import load_model
from tests.support.runs import done, run

CODE = """
import os, pickle, signal, sys, torch
from mlstm_sentiment import SentimentFeaturizer, read_texts
from model.inference.weights import load_model

_, state, file = sys.argv
torch.set_num_threads(2)
if state == "computed":
    featurizer = SentimentFeaturizer("stars_512").fit()
    featurizer.transform(["It works."])
    loaded = featurizer.loaded_
else:
    loaded = load_model("stars_512") if state == "loaded" else pickle.load(open(file, "rb"))
# Of a size that torch divides among its threads, as large weights are; the engine has its own.
work = torch.ones(1 if state == "computed" else 1 << 20)
work.exp()
child = os.fork()
if child == 0:
    signal.alarm(40)  # or it would wait for ever
    assert torch.get_num_threads() == 2  # the program's own children are left as they are
    text = read_texts(loaded, ["It works."], units=[1]).traces[0].text
    work.exp()
    os._exit(len(text) != 9)
_, status = os.waitpid(child, 0)
assert torch.get_num_threads() == 2
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("state", ["computed", "loaded", "unpickled"])
def test_the_child_of_a_process_with_a_model_does_not_wait_for_ever(tmp_path, state):
    file = tmp_path / "loaded.pickle"
    file.write_bytes(pickle.dumps(load_model("stars_512")))
    done(run("-c", CODE, state, file))
