// What our threads do while other programs want their cores; crowding.py says when.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "team.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace crowding {

constexpr uint64_t kSlice = 100'000;  // nanoseconds: the shortest that Linux grants

// Linux's struct sched_attr, in its first version.
struct Scheduling {
  uint32_t size = 48, policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

// Ask the scheduler to run a thread in short slices, and so more often: when it wakes, it runs
// before programs with longer slices. Its share of the core does not change. Linux before 6.12
// ignores this. A thread that is not scheduled in the ordinary way is left alone.
inline void take_short_slices([[maybe_unused]] int64_t thread) {
#if defined(__linux__) && defined(SYS_sched_getattr)
  Scheduling now;
  if (syscall(SYS_sched_getattr, thread, &now, sizeof now, 0) != 0 || now.policy != 0) return;
  now.runtime = kSlice;
  syscall(SYS_sched_setattr, thread, &now, 0);
#endif
}

// Keep, or release, a team of threads that only sleep. libgomp polls for milliseconds while each of
// its threads can have a core, but only for microseconds if it has more threads than cores. This
// team makes them more; once torch is loaded, nothing else has that effect.
inline void keep_idle_team(bool crowded, int64_t threads) {
  static std::atomic<bool> keeping{false};
  if (keeping.exchange(crowded) == crowded) return;
  keeping.notify_all();
  if (!crowded) return;
  std::thread([threads] {
    in_team(threads, [](int64_t, int64_t) {});
    keeping.wait(true);
  }).detach();
}

}  // namespace crowding

extern "C" void mlstm_take_short_slices(int64_t thread) { crowding::take_short_slices(thread); }
extern "C" void mlstm_keep_idle_team(bool crowded, int64_t threads) {
  crowding::keep_idle_team(crowded, threads);
}
