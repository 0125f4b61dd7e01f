// The threads of this package's kernels: how those of a workgroup wait for each other, and how they
// share work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

// The entry points of torch's OpenMP, found in its process when this library is loaded. A pragma
// would call the compiler's OpenMP. Clang has its own, whose threads would poll next to torch's.
extern "C" {
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);
void GOMP_barrier();
int omp_get_thread_num();
int omp_get_num_threads();
}

// Call work(thread, threads) on `count` threads at once; on fewer if there are no more, and on at
// least one: for 0, OpenMP would choose the number, and for less than 0, it ends the process.
template <typename Work>
void in_team(int64_t count, Work work) {
  const auto call = [](void* data) {
    (*static_cast<Work*>(data))(omp_get_thread_num(), omp_get_num_threads());
    std::atomic_thread_fence(std::memory_order_seq_cst);  // all threads see what was streamed
  };
  GOMP_parallel(call, &work, static_cast<unsigned>(std::max<int64_t>(count, 1)), 0);
}

// How often a thread polls before it sleeps. A partner with its own core arrives within
// microseconds, less than a sleep costs. One that queues for a core is milliseconds away, and the
// polling thread may hold the core that it needs. So the number grows each time a partner arrives
// in time, and halves each time it does not.
constexpr int32_t kFewestPolls = 1 << 5, kMostPolls = 1 << 12, kPollsGained = 1 << 4;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Where the threads of a workgroup wait for each other. It only counts up, so it needs no reset;
// the count may wrap around.
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

// Counts how often each of several things was done, by any thread.
class Counts {
 public:
  explicit Counts(int64_t things) : done_(things) {}

  uint32_t times(int64_t thing) const { return done_[thing].load(); }
  void wait(int64_t thing, uint32_t target) {
    for (uint32_t seen; (seen = times(thing)) < target;) done_[thing].wait(seen);
  }
  void add(int64_t thing) {
    ++done_[thing];
    done_[thing].notify_all();
  }

 private:
  std::vector<std::atomic<uint32_t>> done_;
};

// A thread's own pieces of work that nobody has taken yet: the round in the upper 32 bits, then the
// first of these pieces and their end, 16 bits each, counted from the thread's first piece.
struct alignas(64) Hand {
  std::atomic<uint64_t> left{0};
};

// A thread among those that share work.
class Member {
 public:
  const int64_t number, of;

  // hands: those of all members, in order.
  Member(int64_t number, int64_t of, Barrier& barrier, Hand* hands)
      : number(number), of(of), barrier_(barrier), hands_(hands) {}

  void meet() { barrier_.wait(of, meeting_); }

  // The first of a thread's own pieces; those of the next thread begin where they end.
  int64_t first(int64_t pieces, int64_t thread) const { return thread * pieces / of; }

  // Call body(piece) for this thread's pieces of a round, then for those that other threads have
  // not begun: cores are not equally fast if other programs run on them. It must not matter which
  // thread does a piece. All threads call this equally often, with as many pieces, at most 65,535.
  template <typename Body>
  void split(int64_t pieces, Body body) {
    ++round_;
    for (int64_t next = 0; next < of; ++next) {
      const int64_t owner = (number + next) % of;
      for (int64_t piece; (piece = take(pieces, owner)) >= 0;) body(piece);
    }
  }

 private:
  Barrier& barrier_;
  Hand* const hands_;
  int64_t meeting_ = 0;
  uint64_t round_ = 0;

  // Take a piece of the owner's (it takes from the front, others from the back), or return -1.
  int64_t take(int64_t pieces, int64_t owner) {
    const int64_t begin = first(pieces, owner), count = first(pieces, owner + 1) - begin;
    const bool own = owner == number;
    std::atomic<uint64_t>& left = hands_[owner].left;
    for (uint64_t seen = left.load();;) {
      const uint64_t round = seen >> 32;
      if (round > round_) return -1;  // all of this round was taken: the others went on
      const uint64_t from = round == round_ ? seen >> 16 & 0xffff : 0;
      const uint64_t end = round == round_ ? seen & 0xffff : count;
      if (from == end) return -1;
      const uint64_t rest = round_ << 32 | (own ? from + 1 : from) << 16 | (own ? end : end - 1);
      if (left.compare_exchange_weak(seen, rest))
        return begin + static_cast<int64_t>(own ? from : end - 1);
    }
  }
};

// Call work(member) on each of `count` threads, which share the work.
template <typename Work>
void together(int64_t count, Work work) {
  Barrier barrier;
  std::vector<Hand> hands(std::max<int64_t>(count, 1));
  in_team(count, [&](int64_t thread, int64_t threads) {
    Member member(thread, threads, barrier, hands.data());
    work(member);
  });
}
