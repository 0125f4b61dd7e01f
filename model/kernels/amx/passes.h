// The two passes over a window on tiles. What they compute is in ../window.cpp too, for any dtype.
#pragma once

#include "window.h"

namespace {

class Forward : Pass {
 public:
  using Pass::Pass;

  void run() {
    for_my_blocks([&](int64_t block) { begin(block); });
    my.member.meet();
    for (int64_t t = 0; t < w.T; ++t) {
      split_blocks([&](int64_t block) { multiply(t, block); });
      split_blocks([&](int64_t block) { update_state(t, block); });
    }
    for_my_blocks([&](int64_t block) { end(block); });
  }

 private:
  void begin(int64_t block) {
    const Mask real = units(block);
    clear_padding(w.narrow, K, block);
    clear_padding(w.wide, K, block);
    for_my_lanes(
        [&](int64_t lane) {
          store_row(tile_row(w.narrow, K, lane, block), load_row(at(w.h0, lane, block), real));
          const Units c = load(at(w.c0, lane, block), real);
          store(state_at(lane, block), c);
          if (w.c) stream(in_blocks(w.c, 0, lane, block), c);
        },
        [&](int64_t lane) { keep_h(0, lane, block); });
  }

  // Keep the state before byte t of 32 lanes as a factor, while it lies in cache.
  void keep_h(int64_t t, int64_t lane, int64_t block) const {
    if (w.h_before && t < w.T)
      lay_lanes_right(tile_row(w.narrow, K, lane, block), tile_row(w.narrow, K, lane + 16, block),
                      summed(w.h_before, t, lane, block, K));
  }

  // m = x_m * (W_mh h)
  void multiply(int64_t t, int64_t block) {
    product(w.narrow, K, panels.of_mh(block),
            block < last_block() ? panels.of_mh(block + 1) : panels.of_h(my.block0));
    if (w.w_x) project(t, panels.of_x(block, 0), 1, false);
    const Mask real = units(block);
    for_my_lanes([&](int64_t lane) {
      const Units r = load(product_row(lane));
      const Row m = narrow(x_m_at(t, lane, block, real) * r);
      store_row(tile_row(w.wide, K, lane, block), m);
      if (w.recurrent) stream_row(in_blocks(w.recurrent, t, lane, block), narrow(r));
    });
  }

  // z = x_gates + W_h m + b;  c = f c + i u;  h = o tanh(c)
  void update_state(int64_t t, int64_t block) {
    for (int64_t gate = 0; gate < 4; ++gate) {
      product(w.wide, K, panels.of_h(block, gate),
              block < last_block() ? panels.of_h(block + 1, gate)
                                   : panels.of_mh(std::min(my.block0 + gate, last_block())),
              gate);
      if (w.w_x) project(t, panels.of_x(block, gate + 1), gate, true);
    }
    const Mask real = units(block);
    Units bias[4];
    for (int64_t gate = 0; gate < 4; ++gate)
      bias[gate] = load(w.b + gate * H + block * kBlock, real);
    for_my_lanes(
        [&](int64_t lane) {
          const bf16* x = w.w_x ? nullptr : x_at(t, lane, block) + w.x_part;
          const auto z = [&](int64_t gate) {
            const Units input = w.w_x ? Units{} : load(x + gate * w.x_part, real);
            return input + load(product_row(lane, gate)) + bias[gate];
          };
          const Units i = sigmoid(z(0)), f = sigmoid(z(1)), u = tanh_of(z(2)), o = sigmoid(z(3));
          const Units c = fused(f, load(state_at(lane, block)), i * u);
          store(state_at(lane, block), c);
          const Row h = narrow(o * tanh_of(c));
          store_row(tile_row(w.narrow, K, lane, block), h);
          stream_row(at(w.h, t, lane, block), h, real);
          if (w.gates) save(t, lane, block, c, i, f, u, o);
        },
        [&](int64_t lane) { keep_h(t + 1, lane, block); });
  }

  INLINE void save(int64_t t, int64_t lane, int64_t block, Units c, Units i, Units f, Units u,
                   Units o) const {
    stream(in_blocks(w.c, t + 1, lane, block), c);
    bf16* gates = in_blocks(w.gates, t, lane, block, 4 * kBlock);
    stream_row(gates, narrow(i));
    stream_row(gates + kBlock, narrow(f));
    stream_row(gates + 2 * kBlock, narrow(u));
    stream_row(gates + 3 * kBlock, narrow(o));
  }

  void end(int64_t block) {
    for_my_lanes([&](int64_t lane) {
      store(at(w.c_last, lane, block), load(state_at(lane, block)), units(block));
    });
  }
};

class Backward : Pass {
 public:
  Backward(const Window& window, Assignment assignment)
      : Pass(window, assignment), begin_(my.member.first(D, my.member.number)),
        end_(my.member.first(D, my.member.number + 1)),
        input_sums_((end_ - begin_) * blocks_of(my.lanes)) {}

  void run() {
    for_my_blocks([&](int64_t block) { begin(block); });
    my.member.meet();
    for (int64_t t = w.T - 1; t >= 0; --t) {
      split_blocks([&](int64_t block) { retreat(t, block); });
      sum_gates_into_inputs();
      split_blocks([&](int64_t block) { unmultiply(t, block); });
      sum_d_x_m_into_inputs(t);
    }
    for_my_blocks([&](int64_t block) { end(block); });
  }

 private:
  const int64_t begin_, end_;       // the blocks of inputs whose gradients I add up
  std::vector<Block> input_sums_;  // [my blocks of inputs, lanes / 32]

  void begin(int64_t block) {
    clear_padding(w.narrow, K, block);
    if (w.w_x) clear_padding(w.d_x_m_rows, K, block);
    for (int64_t gate = 0; gate < 4; ++gate) clear_padding(w.wide, 4 * K, gate * K + block);
    for_my_lanes([&](int64_t lane) {
      store(state_at(lane, block), load(at(w.dc, lane, block), units(block)));
    });
  }

  // My workgroup's sums over all bytes that read the same row of x.
  float* sums_of(int64_t row, int64_t block) const {
    return w.sums + ((my.workgroup * K + block) * w.R + row) * 5 * kBlock;
  }

  // Write the gradient of h after byte t that comes from byte t + 1 to product_row.
  void state_gradient(int64_t t, int64_t block) {
    if (t + 1 < w.T)
      return product(w.narrow, K, panels.of_mh(block),
                     block < last_block() ? panels.of_mh(block + 1) : panels.of_h(my.block0), 0,
                     false, ahead(w.gates, std::max<int64_t>(t, 0), block, K, 4 * kBlock),
                     ahead(w.c, std::max<int64_t>(t, 0), block, K));
    for_my_lanes([&](int64_t lane) {
      store(product_row(lane),
            w.dh_last ? load(at(w.dh_last, lane, block), units(block)) : Units{});
    });
  }

  // From d h to d z, and d c one byte back.
  void retreat(int64_t t, int64_t block) {
    state_gradient(t, block);
    for_my_lanes(
        [&](int64_t lane) {
          Units dh = load(product_row(lane));
          if (w.dh) dh = dh + load(at(w.dh, t, lane, block), units(block));
          const bf16* gates = in_blocks(w.gates, t, lane, block, 4 * kBlock);
          const Units i = load(gates), f = load(gates + kBlock);
          const Units u = load(gates + 2 * kBlock), o = load(gates + 3 * kBlock);
          const Units tanh_c = tanh_of(load(in_blocks(w.c, t + 1, lane, block)));
          const Units dho = dh * o;
          const Units dc = fused(dho, one_minus_square(tanh_c), load(state_at(lane, block)));
          const Units dci = dc * i, dcf = dc * f;
          store(state_at(lane, block), dcf);
          const Units c_before = load(in_blocks(w.c, t, lane, block));
          const Units dz[] = {dci * u * one_minus(i), dcf * c_before * one_minus(f),
                              dci * one_minus_square(u), dho * tanh_c * one_minus(o)};
          hand_on(t, lane, block, dz);
        },
        [&](int64_t lane) {
          for (int64_t part = block; part < 4 * K; part += K)  // this block of each gate
            lay_lanes_left(tile_row(w.wide, 4 * K, lane, part),
                           tile_row(w.wide, 4 * K, lane + 16, part),
                           summed(w.dz, t, lane, part, 4 * K));
        });
  }

  // Pass d z of one lane on to the next product, to d x or the sum of its row, and to d b.
  INLINE void hand_on(int64_t t, int64_t lane, int64_t block, const Units (&dz)[4]) const {
    const int64_t lanes = (my.lane0 + lane) / kBlock, step = w.indices ? kBlock : K * kBlock;
    float* sum = w.indices ? sums_of(w.indices[t * w.B + my.lane0 + lane], block) + kBlock
                           : w.db + (lanes * 4 * K + block) * kBlock;
    for (int64_t gate = 0; gate < 4; ++gate, sum += step) {
      const Row row = narrow(dz[gate]);
      store_row(tile_row(w.wide, 4 * K, lane, gate * K + block), row);
      if (!w.indices && !w.w_x) stream_row(dx_at(t, lane, block, gate + 1), row, units(block));
      store(sum, load(sum) + dz[gate]);
    }
  }
  bf16* dx_at(int64_t t, int64_t lane, int64_t block, int64_t part) const {
    return w.dx + ((t * w.B + my.lane0 + lane) * 5 + part) * H + block * kBlock;
  }

  // From d z compute d m, then the gradients of both factors of m, and m again for d W_h.
  void unmultiply(int64_t t, int64_t block) {
    product(w.wide, 4 * K, panels.of_h(block),
            block < last_block() ? panels.of_h(block + 1) : panels.of_mh(my.block0), 0, false,
            ahead(w.recurrent, t, block, 4 * K));
    if (w.w_x) project(t, panels.x_m_panel(block), 1, false);
    const Mask real = units(block);
    alignas(64) bf16 m[kBlock][kBlock] = {};
    for_my_lanes(
        [&](int64_t lane) {
          const Units dm = load(product_row(lane)), x_m = x_m_at(t, lane, block, real);
          const Units r = load(in_blocks(w.recurrent, t, lane, block)), dx = dm * r;
          if (w.w_x) {
            store_row(tile_row(w.d_x_m_rows, K, lane, block), narrow(dx));
          } else if (w.indices) {
            float* sum = sums_of(w.indices[t * w.B + my.lane0 + lane], block);
            store(sum, load(sum) + dx);
          } else {
            stream_row(dx_at(t, lane, block, 0), narrow(dx), real);
          }
          store_row(tile_row(w.narrow, K, lane, block), narrow(dm * x_m));
          store_row(m[lane % kBlock], narrow(x_m * r));
        },
        [&](int64_t lane) {
          for (int64_t pad = my.lanes - lane; pad < kBlock; ++pad) store_row(m[pad], Row{});
          lay_lanes_right(m[0], m[16], summed(w.m, t, lane, block, K));
          lay_lanes_left(tile_row(w.narrow, K, lane, block),
                         tile_row(w.narrow, K, lane + 16, block),
                         summed(w.d_recurrent, t, lane, block, K));
          if (w.w_x)
            lay_lanes_left(tile_row(w.d_x_m_rows, K, lane, block),
                           tile_row(w.d_x_m_rows, K, lane + 16, block),
                           summed(w.d_x_m, t, lane, block, K));
        });
  }

  // The gradient of a byte's inputs, in two parts: first through the gates, while d z of all units
  // is in `wide`, then through m, once all of `d_x_m_rows` is written.
  void sum_gates_into_inputs() {
    for_my_inputs([&](int64_t block, Block* sums) {
      product_to(sums, w.wide, 4 * K, panels.of_inputs(block, 1),
                 block + 1 < end_ ? panels.of_inputs(block + 1, 1) : panels.of_h(my.block0), false);
    });
  }
  void sum_d_x_m_into_inputs(int64_t t) {
    for_my_inputs([&](int64_t block, Block* sums) {
      const bf16* panel = panels.of_inputs(block, 0);
      product_to(sums, w.d_x_m_rows, K, panel, panel + K * 2 * kTile, true);
      const Mask real = first(w.E - block * kBlock);
      for_my_lanes([&](int64_t lane) {
        const int64_t row = t * w.B + my.lane0 + lane;
        const Units sum = load(sums[lane / kBlock].rows[lane % kBlock]);
        stream_row(w.dx + row * w.E + block * kBlock, narrow(sum), real);
      });
    });
  }
  template <typename Body>
  void for_my_inputs(Body body) {
    for (int64_t block = begin_; block < end_; ++block)
      body(block, input_sums_.data() + (block - begin_) * blocks_of(my.lanes));
  }

  void end(int64_t block) {
    state_gradient(-1, block);
    for_my_lanes([&](int64_t lane) {
      store_row(at(w.dh0, lane, block), narrow(load(product_row(lane))), units(block));
      store(at(w.dc, lane, block), load(state_at(lane, block)), units(block));
    });
  }
};

}  // namespace
