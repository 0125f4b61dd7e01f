// Products of factors that are laid out as tiles.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "layout.h"
#include "tile_registers.h"

// Sums of 32 rows and 32 columns.
struct alignas(64) Block {
  float rows[32][32];
};

// What a product prefetches into L2 while it multiplies: `lines` cache lines for each tile of
// depth. L3 delivers a sixth of what L2 does, but 8 lines for a tile cost nothing measurable.
struct Ahead {
  const char* at = nullptr;
  int64_t lines = 0;

  // All of `count` elements, in a product whose rows, columns and depth make this many `steps`.
  template <typename Element>
  static Ahead over(const Element* at, int64_t count, int64_t steps) {
    const int64_t all = (count * int64_t{sizeof(Element)} + 63) / 64;
    return {reinterpret_cast<const char*>(at), steps ? (all + steps - 1) / steps : 0};
  }

  INLINE void fetch() {
    for (int64_t line = 0; line < lines; ++line)
      __builtin_prefetch(at + line * 64, 0, 2);  // 2: into L2
    at += lines * 64;
  }
};

// sums (+)= a [16 kSides, 32 depth] b [32 depth, 32]: kSides x 2 tiles of sums, so that each tile
// of a factor is loaded once for two products.
template <int kSides, typename... Aheads>
INLINE void multiply(TileRegisters& tile, Factor a, Factor b, int64_t depth, Block& sums, bool add,
                     Aheads&... aheads) {
  constexpr int64_t kStride = sizeof sums.rows[0];
  if (add) {
    tile.load<0>(&sums.rows[0][0], kStride);
    tile.load<1>(&sums.rows[0][16], kStride);
    if constexpr (kSides == 2) {
      tile.load<2>(&sums.rows[16][0], kStride);
      tile.load<3>(&sums.rows[16][16], kStride);
    }
  } else {
    tile.zero<0>();
    tile.zero<1>();
    if constexpr (kSides == 2) tile.zero<2>(), tile.zero<3>();
  }
  std::tuple<Aheads...> ahead{aheads...};  // copies: in registers
  for (int64_t k = 0; k < depth; ++k) {
    tile.load<4>(a.at(k, 0), 64);
    tile.load<6>(b.at(k, 0), 64);
    tile.load<7>(b.at(k, 1), 64);
    if constexpr (kSides == 2) tile.load<5>(a.at(k, 1), 64);
    std::apply([](auto&... each) { (each.fetch(), ...); }, ahead);
    tile.multiply_add<0, 4, 6>();
    tile.multiply_add<1, 4, 7>();
    if constexpr (kSides == 2) tile.multiply_add<2, 5, 6>(), tile.multiply_add<3, 5, 7>();
  }
  std::tie(aheads...) = ahead;
  tile.store<0>(&sums.rows[0][0], kStride);
  tile.store<1>(&sums.rows[0][16], kStride);
  if constexpr (kSides == 2) {
    tile.store<2>(&sums.rows[16][0], kStride);
    tile.store<3>(&sums.rows[16][16], kStride);
  }
}

// Multiplies some lanes' rows, tiles [lanes / 16, depth], by one panel of 32 columns after the
// other. Each panel is read once, while the next one is prefetched.
class PanelProduct {
 public:
  // deep: tiles of a panel at a time, for all lanes: 8 take 16 KB.
  explicit PanelProduct(int64_t lanes, int64_t deep = 8)
      : lanes_(lanes), lines_(fetched_lines(lanes)), deep_(deep) {}

  // sums[lanes / 32] (+)= rows panel; next: the panel to multiply by after this one. aheads: what
  // else to prefetch.
  template <typename... Aheads>
  void operator()(const bf16* rows, int64_t depth, const bf16* panel, Block* sums,
                  const bf16* next, bool add = false, Aheads... aheads) {
    Ahead ahead{reinterpret_cast<const char*>(next), lines_};
    for (int64_t k = 0; k < depth; k += deep_)
      for (int64_t lane = 0; lane < lanes_; lane += kBlock) {
        const Factor a{rows + (lane / 16 * depth + k) * kTile, depth * kTile, kTile};
        const Factor b{panel + k * 2 * kTile, kTile, 2 * kTile};
        const int64_t count = std::min(deep_, depth - k);
        if (lanes_ - lane > 16)
          multiply<2>(tile_, a, b, count, sums[lane / kBlock], add || k > 0, ahead, aheads...);
        else
          multiply<1>(tile_, a, b, count, sums[lane / kBlock], add || k > 0, ahead, aheads...);
      }
  }

 private:
  TileRegisters tile_;
  const int64_t lanes_, lines_, deep_;

  // A panel has 32 lines for each tile of depth, which is multiplied once for every 32 lanes.
  static int64_t fetched_lines(int64_t lanes) {
    return std::max<int64_t>(1, 32 / std::max<int64_t>(1, blocks_of(lanes)));
  }
};
