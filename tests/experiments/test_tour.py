"""What a new user waits for: what is measured, and how it is told."""

import sys

from experiments.tour import first_answer, tables


def test_time_is_told_by_the_clock_and_by_the_processor():
    asleep = first_answer.timed([sys.executable, "-c", "import time; time.sleep(0.5)"], {})
    busy = first_answer.timed(
        [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], {}
    )
    assert asleep["seconds"] >= 0.5 > asleep["processor_seconds"]
    assert busy["processor_seconds"] >= 0.5


def test_a_folder_counts_each_file_once(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "file").write_bytes(b"x" * 1000)
    (tmp_path / "lib64").symlink_to("lib")
    assert first_answer.folder_bytes(tmp_path) == 1000 + len("lib")


def test_the_sentence_rounds_what_was_measured():
    seconds = [{"seconds": s, "processor_seconds": 2 * s} for s in (3.6, 4.4, 100.0)]
    result = {
        "install": {"seconds": 70.0, "processor_seconds": 31.4},
        "megabytes": 1234.5,
        "first": {"seconds": 11.2, "processor_seconds": 12.0},
        "later": seconds,
        "origin": {"hardware": {"cores": 2, "processor": "some processor"}},
    }
    assert tables.sentence(result) == (
        "The environment has 1,234 megabytes. Apart from the download, installing took 31 seconds "
        "of processor time; the first answer 11 seconds, since it compiles the recurrence once; "
        "later ones 4 (on 2 cores of some processor)."
    )
