// The cross-entropy of targets under the logits h w^T + b, and its gradients, on tiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../summed.h"

// Rows that are worked on together: every panel of w is read once for all of them, and their logits
// fit in L2 if the vocabulary has 4,096 tokens.
constexpr int64_t kGroup = 64;

// V is the size of the vocabulary. Panels are of 32 columns, as `PanelProduct` reads them. The
// Python side mirrors this struct.
struct CrossEntropy {
  int64_t threads, rows, H, V;
  const bf16* h;           // [rows, H]
  const bf16* w_forward;   // panels of w^T, whose depth is H
  const bf16* w_backward;  // panels of w, whose depth is V
  const float* b;          // [V in whole blocks], -infinity beyond V
  const int64_t* targets;  // [rows]; one below 0 does not count
  const float* factors;    // [rows]: what a row's gradient is multiplied by; or null
  float* nats;             // [rows] out
  bf16* d_h;               // [rows, H] out
  float* d_b;              // [groups, V in whole blocks] out: parts of d b
  bf16* d_logits;          // out: the left factor of d w, whose depth is the rows
  bf16* h_right;           // out: its right factor
};

namespace {

struct alignas(64) Tile {
  bf16 elements[kTile];
};

INLINE float sum_of(Floats x) {
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += x[i];
  return sum;
}
INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }
INLINE float largest_of(Floats x) {
  float largest = x[0];
  for (int i = 1; i < 16; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// One thread's groups of rows, one after the other.
class LossOfRows {
 public:
  explicit LossOfRows(const CrossEntropy& loss)
      : l(loss), K(blocks_of(l.H)), U(blocks_of(l.V)), multiply_by_(kGroup), h_(kGroup / 16 * K),
        d_(kGroup / 16 * U), logits_(kSides * U) {}

  void run(int64_t group) {
    begin_ = group * kGroup, count_ = std::min(kGroup, l.rows - begin_);
    lay_h();
    multiply_logits();
    for (int64_t row = 0; row < count_; ++row) differentiate(row);
    for (int64_t block = 0; block < U; ++block)
      hand_on(block, l.d_b + (group * U + block) * kBlock);
    multiply_back();
  }

 private:
  static constexpr int64_t kSides = kGroup / kBlock;
  const CrossEntropy& l;
  const int64_t K, U;  // blocks of units, of the vocabulary
  int64_t begin_ = 0, count_ = 0;
  PanelProduct multiply_by_;
  std::vector<Tile> h_;        // [kGroup / 16, K]
  std::vector<Tile> d_;        // [kGroup / 16, U]
  std::vector<Block> logits_;  // [U, kSides], then their gradients

  float* logits(int64_t block, int64_t row) {
    return logits_[block * kSides + row / kBlock].rows[row % kBlock];
  }
  int64_t rows_of(int64_t side) const { return std::min(kBlock, count_ - side * kBlock); }
  template <typename Body>
  void for_sides(Body body) const {  // each 32 rows, and their block's index in all rows
    for (int64_t side = 0; side * kBlock < count_; ++side) body(side, begin_ / kBlock + side);
  }

  void lay_h() {
    for_sides([&](int64_t side, int64_t depth) {
      const bf16* rows = l.h + (begin_ + side * kBlock) * l.H;
      bf16* tiles = h_[side * 2 * K].elements;
      lay_left(rows, l.H, rows_of(side), l.H, {tiles, K * kTile, kTile});
      for (int64_t k = 0; k < K; ++k)
        lay_by_rows(rows + k * kBlock, l.H, std::min(kBlock, l.H - k * kBlock), rows_of(side),
                    summed_panel(l.h_right, depth, k, K));
    });
  }

  void multiply_logits() {
    for (int64_t block = 0; block < U; ++block) {
      const bf16* panel = l.w_forward + block * K * 2 * kTile;
      const bf16* next = block + 1 < U ? panel + K * 2 * kTile : l.w_backward;
      multiply_by_(h_[0].elements, K, panel, &logits_[block * kSides], next);
    }
  }

  // Compute a row's nats, and replace its logits by their gradient.
  void differentiate(int64_t row) {
    const int64_t target = l.targets[begin_ + row];
    Floats most = splat(-INFINITY), sums = splat(0.f);
    for (int64_t block = 0; block < U; ++block) {
      const Units x = load(logits(block, row)) + load(l.b + block * kBlock);
      store(logits(block, row), x);
      most = larger(most, larger(x.low, x.high));
    }
    const float largest = largest_of(most);
    float* const chosen = target < 0 ? nullptr : logits(target / kBlock, row) + target % kBlock;
    const float logit = chosen ? *chosen : 0.f;
    const Floats shift = splat(-largest), per_bit = splat(1.44269504f);
    for (int64_t block = 0; block < U; ++block) {
      const Units x = load(logits(block, row)) + Units{shift, shift};
      const Units power = {exp2_of(x.low * per_bit), exp2_of(x.high * per_bit)};
      store(logits(block, row), power);
      sums = sums + power.low + power.high;
    }
    const float sum = sum_of(sums), weight = l.factors ? l.factors[begin_ + row] : 1.f;
    const float factor = chosen ? weight : 0.f;
    l.nats[begin_ + row] = chosen ? std::log(sum) + (largest - logit) : 0.f;
    const Units scale = {splat(factor / sum), splat(factor / sum)};
    for (int64_t block = 0; block < U; ++block)
      store(logits(block, row), load(logits(block, row)) * scale);
    if (chosen) *chosen -= factor;
  }

  // Pass the gradient of 32 logits of all rows on to both products and to d b.
  void hand_on(int64_t block, float* d_b) {
    Units sum{};
    for_sides([&](int64_t side, int64_t depth) {
      bf16* const upper = d_[side * 2 * U + block].elements;
      bf16* const lower = d_[(side * 2 + 1) * U + block].elements;
      for (int64_t i = 0; i < kBlock; ++i) {
        const bool real = i < rows_of(side);
        const Units d = real ? load(logits(block, side * kBlock + i)) : Units{};
        sum = sum + d;
        store_row((i < 16 ? upper : lower) + i % 16 * 32, narrow(d));
      }
      lay_lanes_left(upper, lower, summed_panel(l.d_logits, depth, block, U));
    });
    store(d_b, sum);
  }

  void multiply_back() {
    Block d_h[kSides];
    for (int64_t block = 0; block < K; ++block) {
      const bf16* panel = l.w_backward + block * U * 2 * kTile;
      const bf16* next = block + 1 < K ? panel + U * 2 * kTile : l.w_forward;
      multiply_by_(d_[0].elements, U, panel, d_h, next);
      const Mask real = first(l.H - block * kBlock);
      for (int64_t row = 0; row < count_; ++row)
        stream_row(l.d_h + (begin_ + row) * l.H + block * kBlock,
                   narrow(load(d_h[row / kBlock].rows[row % kBlock])), real);
    }
  }
};

}  // namespace
