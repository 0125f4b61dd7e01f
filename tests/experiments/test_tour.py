"""What a new user waits for: and how it is timed."""

import sys

from experiments.tour import first_answer


def test_time_is_measured_by_the_clock_and_by_the_processor():
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
