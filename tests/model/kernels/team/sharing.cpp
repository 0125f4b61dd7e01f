// Three threads share pieces of work, round after round. The thread that takes piece 0 waits in it
// until the others have done the rest, its own included. Prints how often each piece was done.
#include <cstdio>
#include <thread>
#include <vector>

#include "team.h"

constexpr int64_t kThreads = 3, kPieces = 10, kRounds = 50;

int main() {
  Barrier barrier;
  std::vector<Hand> hands(kThreads);
  Counts done(kPieces);
  std::vector<std::atomic<int64_t>> others(kRounds);
  const auto work = [&](int64_t number) {
    Member member(number, kThreads, barrier, hands.data());
    for (int64_t round = 0; round < kRounds; ++round) {
      // A piece may begin while another thread is still at this piece of the round before.
      member.split(kPieces, [&](int64_t piece) {
        done.wait(piece, static_cast<uint32_t>(round));
        if (piece == 0)
          for (int64_t seen; (seen = others[round].load()) < kPieces - 1;) others[round].wait(seen);
        else
          ++others[round], others[round].notify_all();
        done.add(piece);
      });
      if (round % 2) member.meet();
    }
  };
  std::vector<std::thread> threads;
  for (int64_t number = 0; number < kThreads; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  for (int64_t piece = 0; piece < kPieces; ++piece) std::printf("%u ", done.times(piece));
}
