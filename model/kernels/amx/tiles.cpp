// The mLSTM's window and products of matrices in bf16 on tiles: what Python calls.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "passes.h"
#include "summed.h"
#include "training/cross_entropy.h"
#include "training/orthogonal.h"

#if !defined(MLSTM_EMULATED_TILES) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

template <typename Direction>
void run(const Window& w) {
  std::vector<Barrier> barriers(w.threads);
  std::vector<Hand> hands(w.threads);
  in_team(w.threads, [&](int64_t thread, int64_t threads) {
    Direction(w, Assignment(w, thread, threads, barriers.data(), hands.data())).run();
  });
}

// Whether processor and kernel support tiles, and AVX-512 with bf16.
bool available() {
#if defined(MLSTM_EMULATED_TILES)
  return true;
#elif defined(__linux__) && defined(__x86_64__)
  unsigned a, b, c, d, more_a, more_b, more_c, more_d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if (!__get_cpuid_count(7, 1, &more_a, &more_b, &more_c, &more_d)) return false;
  const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  const unsigned tiles = 1u << 22 | 1u << 24;                         // bf16, tile
  if ((b & avx512) != avx512 || (d & tiles) != tiles || !(more_a & 1u << 5)) return false;
  __get_cpuid(1, &a, &b, &c, &d);
  if (!(c & 1u << 27)) return false;  // the system does not save such registers
  unsigned saved, upper;
  asm volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
  const unsigned registers = 7u << 5 | 3u << 17;  // of AVX-512 and of tiles
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // once a process
  return (saved & registers) == registers &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// A matrix to be laid out as a factor, for `SummedProduct` or for `PanelProduct`. The Python side
// mirrors this struct.
struct Laying {
  int64_t threads, summed, stride;
  int64_t count, depth;  // count: rows of a left factor, columns of a right one
  enum Kind : int64_t { kLeft, kRightByRows, kRightByColumns } kind;
  const bf16* from;
  bf16* to;

  // Lay out 32 rows of a left factor or columns of a right one.
  void lay(int64_t block) const {
    const int64_t deep = summed ? kChunk : blocks_of(depth), begin = block * kBlock;
    const int64_t real = std::min(kBlock, count - begin);
    for (int64_t k = 0; k < blocks_of(depth); k += deep) {
      const int64_t left = std::min(deep, blocks_of(depth) - k) * kBlock;
      const int64_t elements = std::min(left, depth - k * kBlock);
      const Panel panel = place(block, k, deep);
      if (kind == kLeft)
        lay_left(from + begin * stride + k * kBlock, stride, real, elements, panel);
      else if (kind == kRightByColumns)
        lay_by_columns(from + begin * stride + k * kBlock, stride, real, elements, panel);
      else
        lay_by_rows(from + k * kBlock * stride + begin, stride, real, elements, panel);
    }
  }
  Panel place(int64_t block, int64_t k, int64_t deep) const {
    if (summed) return summed_panel(to, k, block, blocks_of(count));
    bf16* tiles = to + block * 2 * deep * kTile;
    return kind == kLeft ? Panel{tiles, deep * kTile, kTile} : Panel{tiles, kTile, 2 * kTile};
  }
};

}  // namespace

extern "C" bool mlstm_tiles_available() { return available(); }

extern "C" void mlstm_tiles_pack(const Window* w) {
  in_team(w->threads, [w](int64_t thread, int64_t threads) {
    for (int64_t block = thread; block < blocks_of(w->H); block += threads) {
      Panels(*w).pack_forward(block);
      Panels(*w).pack_x_forward(block);
    }
  });
}

extern "C" void mlstm_tiles_forward(const Window* w) { run<Forward>(*w); }

extern "C" void mlstm_tiles_backward(const Window* w) {
  in_team(w->threads, [w](int64_t thread, int64_t threads) {
    for (int64_t block = thread; block < blocks_of(w->H); block += threads)
      Panels(*w).pack_backward(block);
    const int64_t of_x = w->w_x ? blocks_of(std::max(w->H, w->E)) : 0;
    for (int64_t block = thread; block < of_x; block += threads)
      Panels(*w).pack_x_backward(block);
  });
  run<Backward>(*w);
}

extern "C" void mlstm_tiles_multiply(const Summed* summed) {
  Counts added(stretches(*summed));
  together(summed->threads, [&](Member& member) {
    SummedProduct(*summed, false, member, added, 0, ToRows{*summed}).run();
  });
}

extern "C" void mlstm_tiles_orthogonalize(const Orthogonal* orthogonal) {
  Added added(blocks_of(orthogonal->rows) * blocks_of(orthogonal->columns));
  together(orthogonal->threads, [&](Member& member) {
    Orthogonalization(*orthogonal, member, added).run();
  });
}

extern "C" void mlstm_tiles_cross_entropy(const CrossEntropy* loss) {
  together(loss->threads, [loss](Member& member) {
    LossOfRows rows(*loss);
    const int64_t groups = (loss->rows + kGroup - 1) / kGroup;
    member.split(groups, [&](int64_t group) { rows.run(group); });
  });
}

extern "C" void mlstm_tiles_lay(const Laying* laying) {
  in_team(laying->threads, [laying](int64_t thread, int64_t threads) {
    for (int64_t block = thread; block < blocks_of(laying->count); block += threads)
      laying->lay(block);
  });
}
