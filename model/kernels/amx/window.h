// One window of the mLSTM in bf16 on tiles, forward and backward through time.
//
// Letters as in cell.py: T bytes, B lanes, H units; gates i f u o. K is the number of blocks of 32
// units, D that of blocks of 32 inputs. As in ../window.cpp, workgroups of threads take lanes, and
// the threads of a workgroup share units and meet where a product needs all units. Unlike there, a
// thread that is done takes over blocks of units that another has not begun. The layout differs,
// too: what is multiplied is stored as tiles, and what is read again at the next byte or in the
// backward pass is stored in blocks of 32 units, one line to a row. Only the factors of products
// are padded with zeros, to whole blocks of units and lanes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../team.h"
#include "layout.h"
#include "products.h"
#include "summed.h"

// Everything one call reads and writes. Arrays are dense, the last dimension fastest, but for x;
// those with blocks begin at a multiple of 64 bytes. The Python side mirrors this struct.
struct Window {
  int64_t T, B, H, threads, workgroups;
  int64_t x_row, x_part, x_block;  // elements of x from row to row, from i to f, to the next block
  int64_t R;                       // rows of x
  int64_t E;                       // inputs of a byte, where w_x is not null
  const bf16* x;                   // the input's term of m, then of the gates, where w_x is null
  const bf16* w_x;                 // [5H, E]: makes that term of the inputs; or null
  const bf16* inputs;              // tiles [T, 2 blocks of B, D]
  const int64_t* indices;          // [T, B]: the row of x for each byte; null: t * B + b
  const bf16* w_mh;                // [H, H]
  const bf16* w_h;                 // [4H, H]
  const float* b;                  // [4H]
  const bf16* h0;                  // [B, H]
  const float* c0;                 // [B, H]
  bf16* packed;                    // 5 K K 1024: the weights, as packed by pack; scratch backward
  bf16* packed_x;                  // 5 K D 1024: w_x, as packed by pack; backward 6 K D, scratch
  bf16* narrow;                    // tiles [2 blocks of B, K] scratch: h forward, d W_mh h backward
  bf16* wide;                      // tiles [2 blocks of B, 4K] scratch: m forward, d z backward
  bf16* d_x_m_rows;                // tiles [2 blocks of B, K] scratch: d of the input's term of m
  float* state;                    // [K, B, 32] scratch: c forward, d c backward
  bf16* h;                         // [T, B, H] out
  float* c_last;                   // [B, H] out
  float* c;                        // [T + 1, K, B, 32]: c before each byte and at the end
  bf16* recurrent;                 // [T, K, B, 32]: W_mh h, the other factor of m
  bf16* gates;                     // [T, K, B, 4, 32] after their non-linearities
  bf16* h_before;                  // h before each byte, the right factor of d W_mh
  const bf16* dh;                  // [T, B, H] or null
  const bf16* dh_last;             // [B, H] or null
  bf16* dx;                        // [T, B, 5H] out, or d of the inputs [T, B, E]; no indices
  float* sums;                     // [workgroups, K, R, 5, 32], zeros in: d x by row, given indices
  bf16* dh0;                       // [B, H] out
  float* dc;                       // [B, H]: d c_T in, d c_0 out
  float* db;                       // [blocks of B, 4, K, 32], zeros in: parts of d b; no indices
  bf16* dz;                        // the left factor of d W_h
  bf16* d_recurrent;               // the left factor of d W_mh
  bf16* m;                         // the right factor of d W_h
  bf16* d_x_m;                   // the left factor of the first H rows of d W_x, dz of the rest
};

namespace {

// What one thread works on.
struct Assignment {
  int64_t workgroup, lane0, lanes;  // lane0: a multiple of 32
  int64_t block0, block1;           // of units: those it begins with
  Member member;                    // of the workgroup

  Assignment(const Window& w, int64_t thread, int64_t threads, Barrier* barriers, Hand* hands)
      : Assignment(w, thread, threads, threads % w.workgroups ? 1 : w.workgroups, barriers,
                   hands) {}

 private:
  // workgroups: one if the system gives fewer threads, which may not divide evenly.
  Assignment(const Window& w, int64_t thread, int64_t threads, int64_t workgroups,
             Barrier* barriers, Hand* hands)
      : workgroup(thread / (threads / workgroups)),
        lane0(workgroup * blocks_of(w.B) / workgroups * kBlock),
        lanes(std::min(w.B, (workgroup + 1) * blocks_of(w.B) / workgroups * kBlock) - lane0),
        member(thread % (threads / workgroups), threads / workgroups, barriers[workgroup],
               hands + workgroup * (threads / workgroups)) {
    block0 = member.first(blocks_of(w.H), member.number);
    block1 = member.first(blocks_of(w.H), member.number + 1);
  }
};

// The weight matrices as panels of 32 columns, all of W_mh before all of W_h; W_x lies elsewhere.
class Panels {
 public:
  explicit Panels(const Window& window)
      : w(window), H(w.H), K(blocks_of(w.H)), D(blocks_of(w.E)) {}

  // For block b: columns of h W_mh^T, and of m W_h^T gate by gate.
  bf16* of_mh(int64_t block) const { return w.packed + block * K * 2 * kTile; }
  bf16* of_h(int64_t block, int64_t gate = 0) const {
    return w.packed + (K * K + (block * 4 + gate) * K) * 2 * kTile;
  }
  void pack_forward(int64_t block) const {
    const int64_t unit = block * kBlock, columns = std::min(kBlock, H - unit);
    lay_by_columns(w.w_mh + unit * H, H, columns, H, panel(of_mh(block)));
    for (int64_t gate = 0; gate < 4; ++gate)
      lay_by_columns(w.w_h + (gate * H + unit) * H, H, columns, H, panel(of_h(block, gate)));
  }
  // The same memory for (d W_mh h) W_mh and d z W_h, whose depth is all gates.
  void pack_backward(int64_t block) const {
    const int64_t unit = block * kBlock, columns = std::min(kBlock, H - unit);
    lay_by_rows(w.w_mh + unit, H, columns, H, panel(of_mh(block)));
    for (int64_t gate = 0; gate < 4; ++gate)
      lay_by_rows(w.w_h + gate * H * H + unit, H, columns, H, panel(of_h(block, gate)));
  }

  // For block b of units: columns of x W_x^T, of m's term or of a gate's.
  bf16* of_x(int64_t block, int64_t part) const {
    return w.packed_x + (block * 5 + part) * D * 2 * kTile;
  }
  // Backward: the first of them, and for block d of inputs columns of d x_m W_x, part by part.
  bf16* x_m_panel(int64_t block) const { return w.packed_x + (5 * K + block) * D * 2 * kTile; }
  bf16* of_inputs(int64_t block, int64_t part) const {
    return w.packed_x + (block * 5 + part) * K * 2 * kTile;
  }
  void pack_x_forward(int64_t block) const {
    for (int64_t part = 0; part < 5; ++part) lay_x(block, part, of_x(block, part));
  }
  void pack_x_backward(int64_t block) const {
    if (block < K) lay_x(block, 0, x_m_panel(block));
    if (block >= D) return;
    const int64_t input = block * kBlock, columns = std::min(kBlock, w.E - input);
    for (int64_t part = 0; part < 5; ++part)
      lay_by_rows(w.w_x + part * H * w.E + input, w.E, columns, H, panel(of_inputs(block, part)));
  }

 private:
  const Window& w;
  const int64_t H, K, D;

  void lay_x(int64_t block, int64_t part, bf16* to) const {
    const int64_t unit = block * kBlock, columns = std::min(kBlock, H - unit);
    lay_by_columns(w.w_x + (part * H + unit) * w.E, w.E, columns, w.E, panel(to));
  }
  static Panel panel(bf16* tiles) { return {tiles, kTile, 2 * kTile}; }
};

// What forward and backward share: one thread's lanes and blocks, where they lie, their products.
class Pass {
 public:
  Pass(const Window& window, Assignment assignment)
      : w(window), my(assignment), panels(window), H(w.H), K(blocks_of(w.H)), D(blocks_of(w.E)),
        multiply_by_(my.lanes), sums_(blocks_of(my.lanes) * 4) {}

 protected:
  const Window& w;
  Assignment my;
  const Panels panels;
  const int64_t H, K, D;

  Mask units(int64_t block) const { return first(H - block * kBlock); }  // that exist
  int64_t last_block() const { return std::max<int64_t>(my.block1 - 1, 0); }
  template <typename Body>
  void for_my_blocks(Body body) {
    for (int64_t block = my.block0; block < my.block1; ++block) body(block);
  }
  // Call body for the blocks of my workgroup, mine first; return when all are done. What a product
  // prefetches for the next one is a guess, correct as long as another block of mine follows.
  template <typename Body>
  void split_blocks(Body body) {
    my.member.split(K, body);
    my.member.meet();
  }
  // Call body for each lane, and end after every 32 lanes.
  template <typename Body, typename End>
  void for_my_lanes(Body body, End end) {
    for (int64_t begin = 0; begin < my.lanes; begin += kBlock) {
      for (int64_t lane = begin; lane < std::min(begin + kBlock, my.lanes); ++lane) body(lane);
      end(begin);
    }
  }
  template <typename Body>
  void for_my_lanes(Body body) {
    for_my_lanes(body, [](int64_t) {});
  }

  // The row of one of my lanes in an array [B, H], at a block; at a byte, in an array [T, B, H].
  template <typename Element>
  Element* at(Element* array, int64_t lane, int64_t block) const {
    return array + (my.lane0 + lane) * H + block * kBlock;
  }
  template <typename Element>
  Element* at(Element* array, int64_t t, int64_t lane, int64_t block) const {
    return at(array + t * w.B * H, lane, block);
  }
  // The same in an array in blocks, [T, K, B], of `size` elements each.
  template <typename Element>
  Element* in_blocks(Element* array, int64_t t, int64_t lane, int64_t block,
                     int64_t size = kBlock) const {
    return array + ((t * K + block) * w.B + my.lane0 + lane) * size;
  }
  float* state_at(int64_t lane, int64_t block) const { return in_blocks(w.state, 0, lane, block); }
  // The input's term of m; the terms of the gates follow, each w.x_part elements later.
  const bf16* x_at(int64_t t, int64_t lane, int64_t block) const {
    const int64_t byte = t * w.B + my.lane0 + lane;
    return w.x + (w.indices ? w.indices[byte] : byte) * w.x_row + block * w.x_block;
  }
  // The input's term of m: from `project`, at index 1, or read from x.
  Units x_m_at(int64_t t, int64_t lane, int64_t block, Mask real) {
    return w.w_x ? load(product_row(lane, 1)) : load(x_at(t, lane, block), real);
  }
  // The row of one of my lanes in tiles [B / 16, depth].
  bf16* tile_row(bf16* tiles, int64_t depth, int64_t lane, int64_t k) const {
    const int64_t row = my.lane0 + lane;
    return tiles + (row / 16 * depth + k) * kTile + row % 16 * 32;
  }
  // Set the lanes that pad the last 32 to zero in a factor; no pass writes to them after this.
  void clear_padding(bf16* tiles, int64_t depth, int64_t k) const {
    for (int64_t lane = my.lanes; lane % kBlock != 0; ++lane)
      store_row(tile_row(tiles, depth, lane, k), Row{});
  }
  // Where 32 lanes of byte t go in a factor of a weight gradient, which sums over lanes and bytes.
  Panel summed(bf16* factor, int64_t t, int64_t lane, int64_t block, int64_t blocks) const {
    return summed_panel(factor, t * blocks_of(w.B) + (my.lane0 + lane) / kBlock, block, blocks);
  }

  // Multiply my lanes' rows of tiles [B / 16, depth] by a panel; `next` is the panel after it.
  // aheads: what else to prefetch.
  template <typename... Aheads>
  void product(const bf16* tiles, int64_t depth, const bf16* panel, const bf16* next,
               int64_t index = 0, bool add = false, Aheads... aheads) {
    product_to(sums_.data() + index * blocks_of(my.lanes), tiles, depth, panel, next, add,
               aheads...);
  }
  template <typename... Aheads>
  void product_to(Block* to, const bf16* tiles, int64_t depth, const bf16* panel, const bf16* next,
                  bool add, Aheads... aheads) {
    multiply_by_(tiles + my.lane0 / 16 * depth * kTile, depth, panel, to, next, add, aheads...);
  }
  // Prefetch `size` elements for each of my lanes, in blocks, during a product of this depth.
  template <typename Element>
  Ahead ahead(const Element* array, int64_t t, int64_t block, int64_t depth,
              int64_t size = kBlock) const {
    return Ahead::over(in_blocks(array, t, 0, block, size), my.lanes * size,
                       depth * blocks_of(my.lanes));
  }
  // Multiply the inputs of byte t by a panel of W_x; the next panel lies behind it.
  void project(int64_t t, const bf16* panel, int64_t index, bool add) {
    product(w.inputs + t * 2 * blocks_of(w.B) * D * kTile, D, panel, panel + D * 2 * kTile, index,
            add);
  }
  // A lane's row of the product of this index.
  float* product_row(int64_t lane, int64_t index = 0) {
    return sums_[index * blocks_of(my.lanes) + lane / kBlock].rows[lane % kBlock];
  }

 private:
  PanelProduct multiply_by_;
  std::vector<Block> sums_;  // [products of a block, lanes / 32]
};

}  // namespace
