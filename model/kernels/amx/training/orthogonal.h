// Muon's iterations on tiles: x <- (a + b g + c g^2) x with g = x x^T, `iterations` times.
#pragma once

#include "../summed.h"

// The Python side mirrors this struct.
struct Orthogonal {
  int64_t threads, rows, columns;  // of x; rows <= columns, for which the scratch is enough
  int64_t turned;                  // the matrix is given and returned as x^T
  int64_t iterations;
  float a, b, c;                   // coefficients of the polynomial
  const float* norm;               // x begins as the matrix over this
  const float* from;               // [rows, columns], or [columns, rows] if turned
  float* to;                       // as `from`; values of bf16
  bf16* left;                      // x as the left factor of g
  bf16* across;                    // x^T as the right factor of g
  bf16* right[2];                  // x as a right factor: one is read, the other written
  bf16* gram_left;                 // g as both factors of its square
  bf16* gram_right;
  bf16* polynomial;                // a left factor
  Block* sums;                     // scratch of the largest product
};

namespace {

// Counts the chunks added to each product of an iteration.
struct Added {
  explicit Added(int64_t things) : gram(things), square(things), product(things) {}
  Counts gram, square, product;
};

// One thread's part. Products are stored directly in the layout of the factors that they become.
class Orthogonalization {
 public:
  Orthogonalization(const Orthogonal& orthogonal, Member& member, Added& added)
      : o(orthogonal), M(blocks_of(o.rows)), N(blocks_of(o.columns)), member_(member),
        added_(added) {}

  void run() {
    member_.split(M, [&](int64_t row) {
      for (int64_t column = 0; column < N; ++column)
        lay_x(row, column, normalized(row, column), o.right[0]);
    });
    member_.meet();
    for (int64_t done = 0; done < o.iterations; ++done) iterate(done);
  }

 private:
  const Orthogonal& o;
  const int64_t M, N;  // blocks of rows and columns
  Member& member_;
  Added& added_;
  alignas(64) bf16 rows_[kBlock][kBlock];

  void iterate(int64_t done) {
    multiply(added_.gram, done, N, o.rows, true, o.left, o.across,
             [&](const auto&... arguments) { lay_gram(arguments...); });
    multiply(added_.square, done, M, o.rows, true, o.gram_left, o.gram_right,
             [&](const auto&... arguments) { lay_polynomial(arguments...); });
    multiply(added_.product, done, M, o.columns, false, o.polynomial, o.right[done % 2],
             [&](int64_t row, int64_t column, const Block& product) {
               if (done + 1 < o.iterations)
                 lay_x(row, column, product, o.right[(done + 1) % 2]);
               else
                 put(row, column, product);
             });
  }

  // [rows, columns] of two factors; all threads are done with it when this returns.
  template <typename Write>
  void multiply(Counts& added, int64_t done, int64_t depth, int64_t columns, bool symmetric,
                const bf16* a, const bf16* b, Write write) {
    const Summed product{.depth = depth, .blocks = M, .parts = 1, .rows = o.rows,
                         .columns = columns, .a = a, .b = b, .sums = o.sums};
    const auto before = static_cast<uint32_t>(done * ((depth + kChunk - 1) / kChunk));
    SummedProduct(product, symmetric, member_, added, before, write).run();
    member_.meet();
  }

  void lay_x(int64_t row, int64_t column, const Block& x, bf16* right) {
    narrow_rows(x);
    lay_left(rows_[0], kBlock, kBlock, kBlock, summed_panel(o.left, column, row, M));
    lay_by_columns(rows_[0], kBlock, kBlock, kBlock, summed_panel(o.across, column, row, M));
    lay_by_rows(rows_[0], kBlock, kBlock, kBlock, summed_panel(right, row, column, N));
  }
  void lay_gram(int64_t row, int64_t column, const Block& gram) {
    narrow_rows(gram);
    lay_left(rows_[0], kBlock, kBlock, kBlock, summed_panel(o.gram_left, column, row, M));
    lay_by_rows(rows_[0], kBlock, kBlock, kBlock, summed_panel(o.gram_right, row, column, M));
  }
  void lay_polynomial(int64_t row, int64_t column, const Block& square) {
    const Panel gram = summed_panel(o.gram_left, column, row, M);
    Block polynomial;
    for (int64_t i = 0; i < kBlock; ++i) {
      const Units linear = load(gram.at(0, i / 16) + i % 16 * 32);
      store(polynomial.rows[i], all(o.c) * load(square.rows[i]) + all(o.b) * linear);
      if (row == column) polynomial.rows[i][i] += o.a;
    }
    narrow_rows(polynomial);
    lay_left(rows_[0], kBlock, kBlock, kBlock, summed_panel(o.polynomial, column, row, M));
  }
  static Units all(float value) { return {splat(value), splat(value)}; }
  void narrow_rows(const Block& block) {
    for (int64_t i = 0; i < kBlock; ++i) store_row(rows_[i], narrow(load(block.rows[i])));
  }

  // A block of the matrix, divided by its norm; zeros beyond its edges.
  Block normalized(int64_t row, int64_t column) const {
    if (o.turned) std::swap(row, column);
    Block block;
    for_rows(row, column, [&](int64_t i, int64_t place, Mask mask) {
      const Units x = place < 0 ? Units{} : load(o.from + place, mask);
      store(block.rows[i], {x.low / splat(*o.norm), x.high / splat(*o.norm)});
    });
    return o.turned ? transposed(block) : block;
  }
  void put(int64_t row, int64_t column, const Block& block) {
    narrow_rows(o.turned ? transposed(block) : block);
    if (o.turned) std::swap(row, column);
    for_rows(row, column, [&](int64_t i, int64_t place, Mask mask) {
      if (place >= 0) store(o.to + place, load(rows_[i]), mask);
    });
  }
  // The rows of a block of the matrix: where each begins, or -1, and which of its elements exist.
  template <typename Body>
  void for_rows(int64_t row, int64_t column, Body body) const {
    const int64_t height = o.turned ? o.columns : o.rows, width = o.turned ? o.rows : o.columns;
    const Mask mask = first(width - column * kBlock);
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t at = row * kBlock + i;
      body(i, at < height ? at * width + column * kBlock : -1, mask);
    }
  }
};

}  // namespace
