"""Students learn from a text, and from what teachers expect of it."""

import pytest
import torch

from data_utils.corpus import embedded_corpus
from experiments.recipe.student import TaughtObjective, bits_of_mean
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.state import IGNORED
from training.evaluation import evaluate_split
from training.objective import Objective
from training.parallel.distributed import World

from ..support.runs import done, rows_of, run, small_run

SCALE = 0.01


def model_of(seed):
    return build_model(ModelConfig(hidden_size=8, embedding_size=4), seed)


def window(seed=0):
    tokens = torch.randint(256, (2, 6), generator=torch.Generator().manual_seed(seed))
    targets = tokens.roll(-1, 1)
    targets[0, 3:] = IGNORED
    return tokens, targets


def taught(student, *teachers, share):
    objective = TaughtObjective(student)
    objective.teachers, objective.share = teachers, share
    return objective


def gradients(objective, state=None):
    model = objective.model
    model.zero_grad()
    nats, _ = objective(*window(), state or model.initial_state(2), gradient_scale=SCALE)
    nats.backward()
    return nats.item(), [p.grad.clone() for p in model.parameters()]


def assert_equal(actual, expected):
    assert actual[0] == pytest.approx(expected[0], rel=1e-5)
    for each, other in zip(actual[1], expected[1], strict=True):
        torch.testing.assert_close(each, other, rtol=1e-4, atol=1e-6)


def test_without_a_share_the_loss_is_the_texts():
    student = model_of(0)
    assert_equal(gradients(taught(student, model_of(1), share=0.0)), gradients(Objective(student)))


def test_of_itself_a_student_learns_nothing_more():
    student = model_of(0)
    nats, alone = gradients(Objective(student))
    halves = [each / 2 for each in alone]  # what is left of the text
    assert_equal(gradients(taught(student, student, share=0.5)), (nats, halves))


def test_several_teachers_count_equally():
    student, teachers = model_of(0), (model_of(1), model_of(2))
    nats, both = gradients(taught(student, *teachers, share=0.9))
    each = [gradients(taught(student, teacher, share=0.9))[1] for teacher in teachers]
    assert_equal((nats, both), (nats, [(a + b) / 2 for a, b in zip(*each, strict=True)]))


def test_a_teacher_reads_on_from_window_to_window_and_begins_with_the_lane():
    student, teacher = model_of(0), model_of(1)
    objective = taught(student, teacher, share=0.5)
    (first, _), (second, _) = window(), window(1)
    begins = torch.tensor([True, True])
    objective.expect(first, begins)
    read_on = objective.expect(second, torch.tensor([True, False]))
    weights = teacher.prepare_weights()
    logits, _ = teacher(torch.cat([first, second], 1), teacher.initial_state(2), weights)
    anew, _ = teacher(second, teacher.initial_state(2), weights)
    expected = torch.stack([anew[0], logits[1, first.shape[1] :]], 1).flatten(0, 1).softmax(-1)
    torch.testing.assert_close(read_on, expected, rtol=1e-4, atol=1e-6)


def test_the_bits_of_a_model_and_its_copy_are_the_models():
    model, split = model_of(0), embedded_corpus().splits["valid"]
    bits, _ = evaluate_split(model, split, lanes=64, world=World(0, 1, torch.device("cpu")))
    assert bits_of_mean([model, model], split) == pytest.approx(bits, rel=1e-6)


def test_a_student_is_trained_by_the_command(tmp_path):
    options = small_run(tmp_path / "teacher", 2)[1:]
    done(run("main.py", *options))
    student = ("--teachers", tmp_path / "teacher", "--", *small_run(tmp_path / "student", 2)[1:])
    done(run("-m", "experiments.recipe.student", *student))
    assert rows_of(tmp_path / "student")[-1]["step"] == 2
