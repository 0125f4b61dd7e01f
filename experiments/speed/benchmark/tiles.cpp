// Products of one shape on tiles, over and over: what Intel AMX can do at most, for floor.py.

#include <cstdint>
#include <vector>

#include "../../../model/kernels/amx/products.h"
#include "../../../model/kernels/team.h"

namespace {

// rows [lanes, depth] times panels of 32 columns, as a window multiplies at every byte.
struct Streamed {
  int64_t threads, lanes, depth, panels;
  const bf16* rows;
  const bf16* weights;
  Block* out;  // [panels, lanes / 32]; null: overwritten at once, as in a window

  void multiply(Member& member) const {
    const int64_t tiles = blocks_of(depth), blocks = blocks_of(lanes);
    PanelProduct product(lanes);
    std::vector<Block> scratch(blocks);
    member.split(panels, [&](int64_t n) {
      const bf16* panel = weights + n * tiles * 2 * kTile;
      const bf16* next = panel + tiles * 2 * kTile;
      product(rows, tiles, panel, out ? out + n * blocks : scratch.data(), next);
    });
  }
};

// What the unit can do at most for a product of this shape: it is repeated by threads that wait for
// nobody and keep no result, with a panel in pieces of `deep` tiles. The Python side mirrors this.
struct Repeated {
  int64_t threads, lanes, depth, panels, times;
  int64_t deep;         // 0: no tile is loaded either
  const bf16* rows;     // tiles [lanes / 16, depth]
  const bf16* weights;  // panels, and one more to prefetch

  void multiply(int64_t thread, int64_t count) const {
    const int64_t tiles = blocks_of(depth), blocks = blocks_of(lanes);
    const int64_t begin = thread * panels / count, end = (thread + 1) * panels / count;
    if (deep == 0) return multiply_registers((end - begin) * blocks * tiles * times);
    PanelProduct product(lanes, deep);
    std::vector<Block> scratch(blocks);
    for (int64_t done = 0; done < times; ++done)
      for (int64_t n = begin; n < end; ++n) {
        const bf16* panel = weights + n * tiles * 2 * kTile;
        product(rows, tiles, panel, scratch.data(), panel + tiles * 2 * kTile);
      }
  }
  static void multiply_registers(int64_t count) {
    TileRegisters tile;
    for (int64_t done = 0; done < count; ++done) {
      tile.multiply_add<0, 4, 6>();
      tile.multiply_add<1, 4, 7>();
      tile.multiply_add<2, 5, 6>();
      tile.multiply_add<3, 5, 7>();
    }
  }
};

}  // namespace

extern "C" void mlstm_tiles_stream(const Streamed* streamed) {
  together(streamed->threads, [streamed](Member& member) { streamed->multiply(member); });
}

extern "C" void mlstm_tiles_repeat(const Repeated* repeated) {
  in_team(repeated->threads, [repeated](int64_t thread, int64_t threads) {
    repeated->multiply(thread, threads);
  });
}
