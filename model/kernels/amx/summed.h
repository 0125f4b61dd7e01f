// Products of great depth: the weight gradients, summed over all bytes and lanes of a window, and
// any other product of two matrices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../team.h"
#include "products.h"

constexpr int64_t kChunk = 32;   // tiles of depth that are stored together
constexpr int64_t kDeep = 8;     // tiles of depth that are multiplied at once
constexpr int64_t kAcross = 8;   // blocks of columns per stretch: 128 KB at this depth

// Where two tiles of 32 units at a depth lie in a factor of `blocks` blocks of units:
// [depth / kChunk, 2 blocks, kChunk] tiles.
inline Panel summed_panel(bf16* factor, int64_t depth, int64_t block, int64_t blocks) {
  const int64_t tile = (depth / kChunk * blocks + block) * 2 * kChunk + depth % kChunk;
  return {factor + tile * kTile, kChunk * kTile, kTile};
}

// out [parts * rows, columns] = a b. A part of a's rows fills whole blocks (the units of a gate).
// The Python side mirrors this struct.
struct Summed {
  int64_t threads, depth;             // depth: of a and b, in tiles
  int64_t first, blocks;              // a's first block of rows to multiply, and how many it has
  int64_t parts, rows, columns;       // of out
  int64_t single;                     // whether out is fp32
  const bf16* a;                      // laid out as `summed_panel` says, as a left factor
  const bf16* b;                      // and as a right factor
  Block* sums;                        // [parts * blocks of rows, blocks of columns] scratch, if
                                      // depth exceeds kChunk
  void* out;                          // fp32 or bf16
};

namespace {

inline Block transposed(const Block& block) {
  Block turned;
  for (int64_t y = 0; y < 32; y += 16)
    for (int64_t x = 0; x < 32; x += 16) {
      Row rows[16];
      for (int64_t i = 0; i < 16; ++i) std::memcpy(&rows[i], &block.rows[y + i][x], 64);
      transpose(rows);
      for (int64_t i = 0; i < 16; ++i) std::memcpy(&turned.rows[x + i][y], &rows[i], 64);
    }
  return turned;
}

// Write a block of sums to `out`, in rows.
struct ToRows {
  const Summed& s;

  void operator()(int64_t row_block, int64_t column_block, const Block& sums) const {
    const int64_t blocks = blocks_of(s.rows), part = row_block / blocks;
    const int64_t row = row_block % blocks * kBlock;
    const Mask width = first(s.columns - column_block * kBlock);
    for (int64_t i = 0; i < std::min(kBlock, s.rows - row); ++i) {
      const int64_t place = (part * s.rows + row + i) * s.columns + column_block * kBlock;
      if (s.single)
        store(static_cast<float*>(s.out) + place, load(sums.rows[i]), width);
      else
        stream_row(static_cast<bf16*>(s.out) + place, narrow(load(sums.rows[i])), width);
    }
  }
};

// The number of stretches: up to kAcross blocks of a row, whose sums are added to together.
inline int64_t stretches(const Summed& s) {
  return s.parts * blocks_of(s.rows) * ((blocks_of(s.columns) + kAcross - 1) / kAcross);
}

// The threads share the blocks of rows, and process one chunk of the depth at a time: fetching the
// sums again costs less than fetching factors of the whole depth for every block. Finished sums are
// handed to `write`, one block (row, column) at a time.
template <typename Write>
class SummedProduct {
 public:
  // added: counts the chunks added to each of the `stretches`, from `before` on. symmetric: the
  // product is symmetric, so only its upper half is computed.
  SummedProduct(const Summed& summed, bool symmetric, Member& member, Counts& added,
                uint32_t before, Write write)
      : s(summed), symmetric_(symmetric), member_(member), added_(added), before_(before),
        row_blocks_(s.parts * blocks_of(s.rows)), column_blocks_(blocks_of(s.columns)),
        write_(write) {}

  void run() {
    for (int64_t depth = 0; depth < s.depth; depth += kChunk)
      for (int64_t column = 0; column < column_blocks_; column += kAcross)
        member_.split(row_blocks_, [&](int64_t row) {
          const int64_t stretch = column / kAcross * row_blocks_ + row;
          added_.wait(stretch, before_ + depth / kChunk);  // another thread may be at it
          add(depth, row, column);
          added_.add(stretch);
        });
  }

 private:
  const Summed& s;
  const bool symmetric_;
  Member& member_;
  Counts& added_;
  const uint32_t before_;
  const int64_t row_blocks_, column_blocks_;
  Write write_;
  Block own_[kAcross];
  TileRegisters tile_;

  // With a single chunk, sums are complete and handed over before the next row of blocks begins.
  Block& sums(int64_t row, int64_t column) {
    return s.depth <= kChunk ? own_[column % kAcross] : s.sums[row * column_blocks_ + column];
  }
  Factor left(int64_t depth, int64_t row) const {
    const Panel at = summed_panel(const_cast<bf16*>(s.a), depth, s.first + row, s.blocks);
    return {at.tiles, at.across, at.along};
  }
  Factor right(int64_t depth, int64_t column) const {
    const Panel at = summed_panel(const_cast<bf16*>(s.b), depth, column, column_blocks_);
    return {at.tiles, at.across, at.along};
  }

  // Add a chunk's products to the sums of one block of rows and some blocks of columns. Meanwhile
  // prefetch the factor of the next block of rows, and its sums.
  void add(int64_t chunk, int64_t row, int64_t begin) {
    const int64_t end = std::min(begin + kAcross, column_blocks_);
    const int64_t deepest = std::min(chunk + kChunk, s.depth);
    const int64_t next = row + 1 < row_blocks_ ? row + 1 : row;
    Ahead factor{reinterpret_cast<const char*>(left(chunk, next).tiles), lines(32, end - begin)};
    Ahead next_sums{reinterpret_cast<const char*>(&sums(next, begin)),
                    s.depth > kChunk ? lines(64, deepest - chunk) : 0};
    for (int64_t depth = chunk; depth < deepest; depth += kDeep)
      for (int64_t column = symmetric_ ? std::max(begin, row) : begin; column < end; ++column) {
        multiply<2>(tile_, left(depth, row), right(depth, column), std::min(kDeep, deepest - depth),
                    sums(row, column), depth > 0, factor, next_sums);
        if (depth + kDeep >= s.depth) hand_over(row, column);
      }
  }
  // How many cache lines to prefetch at each of `steps`, for `all` of them.
  static int64_t lines(int64_t all, int64_t steps) { return (all + steps - 1) / steps; }

  void hand_over(int64_t row, int64_t column) {
    write_(row, column, sums(row, column));
    if (symmetric_ && row != column) write_(column, row, transposed(sums(row, column)));
  }
};

}  // namespace
