// The threads of every kernel of this package, and where those of a workgroup wait for each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

// The entry points of torch's OpenMP, found in its process when this library is loaded. A pragma
// would call the compiler's OpenMP. That of clang is another one: its threads poll beside torch's.
extern "C" {
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);
void GOMP_barrier();
int omp_get_thread_num();
int omp_get_num_threads();
}

// Call work(thread, threads) on each of so many threads at once; on fewer where there are no more,
// and on one at least: none would let OpenMP choose, and it ends the process for less than none.
template <typename Work>
void in_team(int64_t wanted, Work work) {
  const auto call = [](void* data) {
    (*static_cast<Work*>(data))(omp_get_thread_num(), omp_get_num_threads());
    std::atomic_thread_fence(std::memory_order_seq_cst);  // what was streamed is seen by all
  };
  GOMP_parallel(call, &work, static_cast<unsigned>(std::max<int64_t>(wanted, 1)), 0);
}

// Polls before a thread sleeps. A partner with a core to itself comes within microseconds, and
// sleep would cost more than that. One that queues for a core is milliseconds away, and whoever
// polls for it may hold the very core that it needs. So patience grows with every partner that
// came in time, and halves with every one that did not.
constexpr int32_t kFewestPolls = 1 << 5, kMostPolls = 1 << 12, kPollsGained = 1 << 4;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Threads of a workgroup meet here. Counting up only, it needs no reset between meetings; the
// count may wrap around.
class Barrier {
 public:
  void wait(int64_t size, int64_t& meeting) {
    if (size == 1) return;
    const uint32_t all = static_cast<uint32_t>(size * ++meeting);
    if (arrived_.fetch_add(1) + 1 == all) {
      arrived_.notify_all();
      return;
    }
    thread_local int32_t patience = kMostPolls;
    for (int32_t polls = 0; polls < patience; ++polls) {
      if (met(arrived_.load(std::memory_order_acquire), all)) {
        patience = std::min(patience + kPollsGained, kMostPolls);
        return;
      }
      relax();
    }
    patience = std::max(patience / 2, kFewestPolls);
    for (uint32_t seen; !met(seen = arrived_.load(), all);) arrived_.wait(seen);
  }

 private:
  static bool met(uint32_t seen, uint32_t all) { return static_cast<int32_t>(seen - all) >= 0; }

  alignas(64) std::atomic<uint32_t> arrived_{0};
};
