"""TensorBoard's events: what a training does when they cannot be written any more."""

from training.metrics import Board


class GoneWriter:
    """A writer whose folder was removed: its thread has noticed, and every call says so."""

    def __init__(self, folder, purge_step):
        self.calls = 0

    def add_scalar(self, *arguments):
        self.calls += 1
        raise FileNotFoundError("no such folder")

    add_text = close = add_scalar


def test_events_that_cannot_be_written_end_no_training(tmp_path, caplog):
    board = Board(tmp_path, 0, GoneWriter)
    board.show("rank_characters_per_second", [1.0, 2.0], 5)
    board.show("bottleneck", "compute", 5)
    board.add_text("sample", "a text", 5)
    board.close()
    assert caplog.text.count("takes no more events (no such folder); the training continues") == 1
    assert board._writer.calls == 2  # the first, and the end of the writer's thread


def test_events_that_fail_at_the_very_end_are_told_too(tmp_path, caplog):
    Board(tmp_path, 0, GoneWriter).close()
    assert caplog.text.count("takes no more events") == 1
