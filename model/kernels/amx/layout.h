// Matrices laid out as tiles: whole kilobytes that a tile register loads in one piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "vectors.h"

constexpr int64_t kBlock = 32;  // units or lanes that are worked on together: two tiles
constexpr int64_t kTile = 512;  // elements of a tile: 16 rows of 32 bf16

constexpr int64_t blocks_of(int64_t size) { return (size + kBlock - 1) / kBlock; }

// Two columns of tiles, `across` elements apart; the tiles of a column are `along` elements apart.
template <typename Pointer>
struct TileColumns {
  Pointer tiles;
  int64_t across, along;
  Pointer at(int64_t depth, int64_t column) const {
    return tiles + depth * along + column * across;
  }
};
using Factor = TileColumns<const bf16*>;
using Panel = TileColumns<bf16*>;

#ifdef MLSTM_AVX512

// Interleave the elements of two rows: those of their first halves, and of their second halves.
INLINE std::pair<Row, Row> interleave(Row even, Row odd) {
  alignas(64) static constexpr uint16_t kLow[32] = {
      0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return {Row(_mm512_permutex2var_epi16(__m512i(even), low, __m512i(odd))),
          Row(_mm512_permutex2var_epi16(__m512i(even), high, __m512i(odd)))};
}

// Transpose 16 x 16 elements of 32 bits: pairs of rows, then pairs of pairs, then quarters of rows.
INLINE void transpose(Row* rows) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = __m512i(rows[i]);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = Row(_mm512_shuffle_i32x4(t[i], t[8 + i], 0x88));
    rows[4 + i] = Row(_mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88));
    rows[8 + i] = Row(_mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd));
    rows[12 + i] = Row(_mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd));
  }
}

#else

INLINE std::pair<Row, Row> interleave(Row even, Row odd) {
  Row low, high;
  for (int i = 0; i < 16; ++i) {
    low[2 * i] = even[i], low[2 * i + 1] = odd[i];
    high[2 * i] = even[16 + i], high[2 * i + 1] = odd[16 + i];
  }
  return {low, high};
}

INLINE void transpose(Row* rows) {
  int32_t from[16][16], to[16][16];
  std::memcpy(from, rows, sizeof from);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[j][i] = from[i][j];
  std::memcpy(rows, to, sizeof to);
}

#endif

// A right factor's next 32 columns, of which `columns` are real, given by columns [column, depth].
inline void lay_by_columns(const bf16* from, int64_t stride, int64_t columns, int64_t depth,
                           Panel to) {
  for (int64_t k = 0; k < blocks_of(depth); ++k)
    for (int64_t side = 0; side < 2; ++side) {
      Row rows[16] = {};
      for (int64_t n = 0; n < std::min<int64_t>(16, columns - side * 16); ++n)
        rows[n] = load_row(from + (side * 16 + n) * stride + k * kBlock, first(depth - k * kBlock));
      transpose(rows);
      for (int64_t p = 0; p < 16; ++p) store_row(to.at(k, side) + p * 32, rows[p]);
    }
}

// The same given by rows [depth, column].
inline void lay_by_rows(const bf16* from, int64_t stride, int64_t columns, int64_t depth,
                        Panel to) {
  const auto row = [&](int64_t k) {
    return k < depth ? load_row(from + k * stride, first(columns)) : Row{};
  };
  for (int64_t k = 0; k < blocks_of(depth); ++k)
    for (int64_t p = 0; p < 16; ++p) {
      const auto [low, high] = interleave(row(k * kBlock + 2 * p), row(k * kBlock + 2 * p + 1));
      store_row(to.at(k, 0) + p * 32, low);
      store_row(to.at(k, 1) + p * 32, high);
    }
}

// A left factor's next 32 rows [row, depth], of which `count` are real.
inline void lay_left(const bf16* from, int64_t stride, int64_t count, int64_t depth, Panel to) {
  for (int64_t k = 0; k < blocks_of(depth); ++k)
    for (int64_t n = 0; n < kBlock; ++n) {
      const Mask mask = n < count ? first(depth - k * kBlock) : 0;
      store_row(to.at(k, n / 16) + n % 16 * 32, load_row(from + n * stride + k * kBlock, mask));
    }
}

// From the rows of 32 lanes and 32 units, two tiles of 16 lanes: factors whose depth is the lanes.
// They are read only after the whole window, so the stores bypass the cache.
inline void lay_lanes_right(const bf16* upper, const bf16* lower, Panel to) {
  for (int64_t p = 0; p < 16; ++p) {
    const bf16* pair = (p < 8 ? upper : lower) + p % 8 * 64;
    const auto [low, high] = interleave(load_row(pair), load_row(pair + 32));
    stream_row(to.at(0, 0) + p * 32, low);
    stream_row(to.at(0, 1) + p * 32, high);
  }
}
inline void lay_lanes_left(const bf16* upper, const bf16* lower, Panel to) {
  Row low[16], high[16];
  for (int64_t p = 0; p < 16; ++p) {
    const bf16* pair = (p < 8 ? upper : lower) + p % 8 * 64;
    std::tie(low[p], high[p]) = interleave(load_row(pair), load_row(pair + 32));
  }
  transpose(low);
  transpose(high);
  for (int64_t unit = 0; unit < 16; ++unit) {
    stream_row(to.at(0, 0) + unit * 32, low[unit]);
    stream_row(to.at(0, 1) + unit * 32, high[unit]);
  }
}
