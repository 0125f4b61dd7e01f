// Where the threads of one group wait for each other, for every kernel of this package.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

constexpr int kSpins = 1 << 12;  // polls before the core is offered to others

// Threads of one group meet here. Counting up only, it needs no reset between meetings.
class Barrier {
 public:
  void wait(int64_t size, int64_t& meeting) {
    if (size == 1) return;
    const int64_t all = size * ++meeting;
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    for (int spins = 0; arrived_.load(std::memory_order_acquire) < all; ++spins)
      if (spins > kSpins) sched_yield();
  }

 private:
  alignas(64) std::atomic<int64_t> arrived_{0};
};
