"""Threads that share work: each piece is done once, by whoever comes to it."""

from pathlib import Path

from tests.model.kernels.compilers import output_of

# Prints how many threads OpenMP is asked for. It takes 0 for a number of its own choice, and the
# unsigned number that -4 becomes it cannot start.
OPENMP = """
#include <cstdio>
#include "team.h"
void GOMP_parallel(void (*)(void*), void*, unsigned threads, unsigned) {
  std::printf("%u ", threads);
}
int omp_get_thread_num() { return 0; }
int omp_get_num_threads() { return 1; }
int main() {
  for (int64_t wanted : {-4, 0, 1, 2}) in_team(wanted, [](int64_t, int64_t) {});
}
"""


def test_every_piece_is_done_once_and_none_waits_for_a_thread_that_is_busy(tmp_path):
    source = Path(__file__).with_name("sharing.cpp").read_text()
    assert output_of(source, tmp_path, "-O2") == ["50"] * 10


def test_openmp_is_asked_for_one_thread_at_least(tmp_path):
    assert output_of(OPENMP, tmp_path) == ["1", "1", "1", "2"]
