// One window of the mLSTM on the CPU, forward and backward through time.
//
// Letters as in cell.py: T bytes, B lanes, H units; gates i f u o. S is the compute dtype. Products
// run in S and add up in fp32, as does everything between them.
//
// Lanes are independent: each workgroup of threads takes some of them through the whole window.
// Within a workgroup, each thread owns some units, and threads meet at a barrier where a product
// needs all units. The two weight matrices are constant over the window, so they are packed once,
// into panels of kUnits units. The arithmetic on the product with a panel follows immediately,
// while the product is in cache. Products are oneDNN's, through torch's brgemm.

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

#include "../crowding.h"
#include "../team.h"
#include "arithmetic.h"

namespace {

using at::native::cpublas::brgemm;

constexpr int64_t kUnits = 32;       // units per panel: two AMX tiles, two AVX-512 registers
constexpr int64_t kLanes = 16;       // fewer lanes per workgroup than this starve the products;
constexpr int64_t kUnitsPerLane = 16;  // at many units, so does reading all weights for few lanes
constexpr int64_t kDepth = 2048;     // bytes of a panel's column per product: more leave the cache
constexpr int64_t kPad = 16;         // keeps rows of a product off each other's cache sets

// Everything one call reads and writes. Arrays are dense, the last dimension fastest; `x` and `dx`
// have rows of 5H: the input's term of m, then of the gates. The Python side mirrors this struct.
struct Window {
  int64_t T, B, H, threads;
  const void* x;          // S [R, 5H]
  const int64_t* indices; // [T, B]: the row of x for each byte; null: t * B + b
  const void* w_mh;       // S [H, H]
  const void* w_h;        // S [4H, H]
  const float* b;         // [4H]
  const void* h0;         // S [B, H]
  const float* c0;        // [B, H]
  void* h;                // S [T, B, H]
  float* c;               // [T, B, H]; [1, B, H], the last, where nothing is saved
  void* recurrent;        // S [T, B, H]: W_mh h, the other factor of m; null: not saved
  void* gates;            // S [T, B, 4H] after their non-linearities; null: not saved
  void* packed;           // S [5H * H]: the weights, as packed by mlstm_pack; scratch backward
  void* narrow;           // S [B, H + kPad] scratch: h forward, d_recurrent backward
  void* wide;             // S [B, 4H + kPad] scratch: m forward, d z backward
  void* m;                // S [T, B, H] out, backward
  const void* dh;         // S [T, B, H] or null
  const void* dh_last;    // S [B, H] or null
  void* dx;               // S [T, B, 5H] out
  void* d_recurrent;      // S [T, B, H] out
  void* dh0;              // S [B, H] out
  float* dc;              // [B, H]: d c_T in, d c_0 out
  float* db;              // [threads, 4H], zeros in: partial sums out
};

// What one thread works on.
struct Assignment {
  int64_t lane0, lanes, block0, block1;  // lanes, and blocks of kUnits units
  int64_t workgroup_size, meeting = 0;
  Barrier* barrier;

  Assignment(const Window& w, int64_t thread, int64_t threads, std::vector<Barrier>& barriers) {
    const int64_t least = std::max(kLanes, w.H / kUnitsPerLane);
    int64_t workgroups = 1;
    for (int64_t n = 2; n <= threads; ++n)
      if (threads % n == 0 && w.B / n >= least) workgroups = n;
    workgroup_size = threads / workgroups;
    const int64_t workgroup = thread / workgroup_size, member = thread % workgroup_size;
    const int64_t blocks = (w.H + kUnits - 1) / kUnits;
    lane0 = workgroup * w.B / workgroups;
    lanes = (workgroup + 1) * w.B / workgroups - lane0;
    block0 = member * blocks / workgroup_size;
    block1 = (member + 1) * blocks / workgroup_size;
    barrier = &barriers[workgroup];
  }
  void meet() { barrier->wait(workgroup_size, meeting); }
};

// What is multiplied by the weights, [lanes, depth].
template <typename S>
struct Left {
  const S* rows;
  int64_t stride;
};

template <typename S>
class Pass {
 public:
  Pass(const Window& window, Assignment assignment) : w(window), my(assignment), H(window.H) {
    tile.resize(my.lanes * 4 * kUnits);
  }

  void forward() {
    for (int64_t t = 0; t < w.T; ++t) {
      const auto h = t > 0 ? left(w.narrow, H + kPad) : left(w.h0, H);
      for (int64_t block = my.block0; block < my.block1; ++block) multiply(t, block, h);
      my.meet();
      const auto m = left(w.wide, 4 * H + kPad);
      for (int64_t block = my.block0; block < my.block1; ++block) advance(t, block, m);
      my.meet();
    }
    at::native::cpublas::brgemm_release(kInterleaved > 1);
  }

  void backward(float* db) {
    for (int64_t t = w.T - 1; t >= 0; --t) {
      for (int64_t block = my.block0; block < my.block1; ++block) retreat(t, block, db);
      my.meet();
      for (int64_t block = my.block0; block < my.block1; ++block) unmultiply(t, block);
      my.meet();
    }
    for (int64_t block = my.block0; block < my.block1; ++block) {
      state_gradient(-1, block);
      for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
        store(at(w.dh0, row, H) + unit, load(&tile[row * width(block) + j], n), n);
      });
    }
    at::native::cpublas::brgemm_release(kInterleaved > 1);
  }

  // Panels of W_mh [H, units] and of W_h [H, 4 units]: what forward multiplies by.
  void pack_forward(int64_t thread, int64_t threads) {
    for (int64_t block = thread; block * kUnits < H; block += threads) {
      const int64_t unit = block * kUnits, n = width(block);
      pack(panel_mh(block), n, 0, weights(w.w_mh) + unit * H, H, n, 1, H);
      for (int64_t gate = 0; gate < 4; ++gate)
        pack(panel_h(block), 4 * n, gate * n, weights(w.w_h) + (gate * H + unit) * H, H, n, 1, H);
    }
  }

  // Panels of W_mh [H, units] and W_h [4H, units], not transposed: what backward multiplies by.
  void pack_backward(int64_t thread, int64_t threads) {
    for (int64_t block = thread; block * kUnits < H; block += threads) {
      const int64_t unit = block * kUnits, n = width(block);
      pack(panel_mh(block), n, 0, weights(w.w_mh) + unit, H, n, H, 1);
      pack(panel_h(block), n, 0, weights(w.w_h) + unit, 4 * H, n, H, 1);
    }
  }

 private:
  static constexpr int64_t kInterleaved = 4 / sizeof(S);  // rows of a panel side by side ("VNNI")
  const Window& w;
  Assignment my;
  const int64_t H;
  std::vector<float> tile;  // the product with one panel: [lanes, columns of the panel]

  int64_t width(int64_t block) const { return std::min(kUnits, H - block * kUnits); }
  static const S* weights(const void* matrix) { return static_cast<const S*>(matrix); }
  S* panel_mh(int64_t block) const { return static_cast<S*>(w.packed) + block * kUnits * H; }
  S* panel_h(int64_t block) const {
    return static_cast<S*>(w.packed) + H * H + block * kUnits * 4 * H;
  }

  // The row of one of my lanes in an array [B, size].
  S* at(void* array, int64_t row, int64_t size) const {
    return static_cast<S*>(array) + (my.lane0 + row) * size;
  }
  const S* at(const void* array, int64_t row, int64_t size) const {
    return static_cast<const S*>(array) + (my.lane0 + row) * size;
  }
  // The row of one of my lanes at a byte in an array [T, B, size].
  S* at(void* array, int64_t t, int64_t row, int64_t size) const {
    return at(array, t * w.B + row, size);
  }
  const S* at(const void* array, int64_t t, int64_t row, int64_t size) const {
    return at(array, t * w.B + row, size);
  }
  const S* x_row(int64_t t, int64_t row) const {
    const int64_t place = t * w.B + my.lane0 + row;
    return static_cast<const S*>(w.x) + (w.indices ? w.indices[place] : place) * 5 * H;
  }
  float* c_row(int64_t t, int64_t row) const {
    const int64_t saved = w.gates ? t : 0;
    return w.c + (saved * w.B + my.lane0 + row) * H;
  }
  const float* c_before(int64_t t, int64_t row) const {
    return t > 0 ? c_row(t - 1, row) : w.c0 + (my.lane0 + row) * H;
  }

  void pack(S* panel, int64_t columns, int64_t first, const S* from, int64_t depth, int64_t count,
            int64_t depth_stride, int64_t stride) const {
    for (int64_t begin = 0; begin < depth; begin += kUnits)  // square blocks stay in cache
      for (int64_t n = 0; n < count; ++n)
        for (int64_t k = begin; k < std::min(begin + kUnits, depth); ++k) {
          const int64_t row = (k / kInterleaved * columns + first + n) * kInterleaved;
          panel[row + k % kInterleaved] = from[k * depth_stride + n * stride];
        }
  }

  // My lanes' rows of an array [B, stride].
  Left<S> left(const void* array, int64_t stride) const { return {at(array, 0, stride), stride}; }

  void product(Left<S> a, int64_t depth, const S* panel, int64_t columns) {
    constexpr int64_t deepest = kDepth / sizeof(S);
    for (int64_t k = 0; k < depth && my.lanes > 0; k += deepest)
      brgemm(my.lanes, columns, std::min(deepest, depth - k), a.stride, columns, columns, k > 0,
             a.rows + k, panel + k * columns, tile.data(), kInterleaved > 1);
  }

  // n numbers of a product, from `column` on.
  Vec product_at(int64_t row, int64_t column, int64_t columns, int64_t n) const {
    return load(&tile[row * columns + column], n);
  }

  template <typename Body>
  void for_each_vector(int64_t block, Body body) const {
    const int64_t units = width(block);
    for (int64_t row = 0; row < my.lanes; ++row)
      for (int64_t j = 0; j < units; j += Vec::size())
        body(row, j, block * kUnits + j, std::min<int64_t>(Vec::size(), units - j));
  }

  // m = x_m * (W_mh h)
  void multiply(int64_t t, int64_t block, Left<S> h) {
    const int64_t columns = width(block);
    product(h, H, panel_mh(block), columns);
    for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
      const Vec r = product_at(row, j, columns, n);
      store(at(w.wide, row, 4 * H + kPad) + unit, load(x_row(t, row) + unit, n) * r, n);
      if (w.recurrent) stream(at(w.recurrent, t, row, H) + unit, r, n);
    });
  }

  // z = x_gates + W_h m + b;  c = f c + i u;  h = o tanh(c)
  void advance(int64_t t, int64_t block, Left<S> m) {
    const int64_t columns = width(block);
    product(m, H, panel_h(block), 4 * columns);
    for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
      const S* x = x_row(t, row) + H + unit;
      const auto sum = [&](int64_t gate) {
        const Vec z = product_at(row, gate * columns + j, 4 * columns, n);
        return load(x + gate * H, n) + z + load(w.b + gate * H + unit, n);
      };
      const Vec i = sigmoid(sum(0)), f = sigmoid(sum(1)), u = tanh_of(sum(2)), o = sigmoid(sum(3));
      const Vec c = f * load(c_before(t, row) + unit, n) + i * u;
      store(c_row(t, row) + unit, c, n);
      const Vec h = o * tanh_of(c);
      stream(at(w.h, t, row, H) + unit, h, n);
      store(at(w.narrow, row, H + kPad) + unit, h, n);
      if (w.gates) {
        S* gates = at(w.gates, t, row, 4 * H) + unit;
        stream(gates, i, n);
        stream(gates + H, f, n);
        stream(gates + 2 * H, u, n);
        stream(gates + 3 * H, o, n);
      }
    });
  }

  // tile = the gradient of h after byte t that comes from byte t + 1
  void state_gradient(int64_t t, int64_t block) {
    if (t + 1 < w.T) {
      product(left(w.narrow, H + kPad), H, panel_mh(block), width(block));
    } else {
      for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
        const Vec last = w.dh_last ? load(at(w.dh_last, row, H) + unit, n) : Vec(0.f);
        store(&tile[row * width(block) + j], last, n);
      });
    }
  }

  // From d h to d z, and d c one byte back.
  void retreat(int64_t t, int64_t block, float* db) {
    state_gradient(t, block);
    const Vec one(1.f);
    for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
      Vec dh = load(&tile[row * width(block) + j], n);
      if (w.dh) dh = dh + load(at(w.dh, t, row, H) + unit, n);
      const S* gates = at(w.gates, t, row, 4 * H) + unit;
      const Vec i = load(gates, n), f = load(gates + H, n);
      const Vec u = load(gates + 2 * H, n), o = load(gates + 3 * H, n);
      const Vec tanh_c = tanh_of(load(c_row(t, row) + unit, n));
      float* carried = w.dc + (my.lane0 + row) * H + unit;
      const Vec dc = load(carried, n) + dh * o * (one - tanh_c * tanh_c);
      store(carried, dc * f, n);
      const Vec c_old = load(c_before(t, row) + unit, n);
      const Vec dz[4] = {dc * u * i * (one - i), dc * c_old * f * (one - f),
                         dc * i * (one - u * u), dh * tanh_c * o * (one - o)};
      S* dx = at(w.dx, t, row, 5 * H) + H + unit;
      S* wide = at(w.wide, row, 4 * H + kPad) + unit;
      for (int64_t gate = 0; gate < 4; ++gate) {
        stream(dx + gate * H, dz[gate], n);
        store(wide + gate * H, dz[gate], n);
        float* sum = db + gate * H + unit;
        store(sum, load(sum, n) + dz[gate], n);
      }
    });
  }

  // From d z compute d m, then the gradients of both factors of m.
  void unmultiply(int64_t t, int64_t block) {
    product(left(w.wide, 4 * H + kPad), 4 * H, panel_h(block), width(block));
    for_each_vector(block, [&](int64_t row, int64_t j, int64_t unit, int64_t n) {
      const Vec dm = load(&tile[row * width(block) + j], n);
      const Vec x_m = load(x_row(t, row) + unit, n);
      const Vec r = load(at(w.recurrent, t, row, H) + unit, n);
      stream(at(w.dx, t, row, 5 * H) + unit, dm * r, n);
      stream(at(w.d_recurrent, t, row, H) + unit, dm * x_m, n);
      store(at(w.narrow, row, H + kPad) + unit, dm * x_m, n);
      stream(at(w.m, t, row, H) + unit, x_m * r, n);
    });
  }
};

template <typename S, typename Work>
void in_parallel(const Window& w, Work work) {
  std::vector<Barrier> barriers(w.threads);
  in_team(w.threads, [&](int64_t thread, int64_t threads) {
    work(Pass<S>(w, Assignment(w, thread, threads, barriers)), thread, threads);
  });
}

template <typename S>
void pack_forward(const Window& w) {
  in_parallel<S>(w, [](Pass<S> pass, int64_t thread, int64_t threads) {
    pass.pack_forward(thread, threads);
  });
}

template <typename S>
void forward(const Window& w) {
  in_parallel<S>(w, [](Pass<S> pass, int64_t, int64_t) { pass.forward(); });
}

template <typename S>
void backward(const Window& w) {
  in_parallel<S>(w, [&w](Pass<S> pass, int64_t thread, int64_t threads) {
    pass.pack_backward(thread, threads);
    GOMP_barrier();
    pass.backward(w.db + thread * 4 * w.H);
  });
}

// sums[indices[n]] += values[n] over all n; each thread owns some columns.
template <typename S>
void sum_rows(const S* values, const int64_t* indices, float* sums, int64_t count,
              int64_t columns, int64_t threads) {
  in_team(threads, [&](int64_t thread, int64_t team) {
    const int64_t vectors = (columns + Vec::size() - 1) / Vec::size();
    const int64_t first = thread * vectors / team * Vec::size();
    const int64_t end = std::min((thread + 1) * vectors / team * Vec::size(), columns);
    for (int64_t n = 0; n < count; ++n)
      for (int64_t j = first; j < end; j += Vec::size()) {
        const int64_t size = std::min<int64_t>(Vec::size(), end - j);
        float* sum = sums + indices[n] * columns + j;
        store(sum, load(sum, size) + load(values + n * columns + j, size), size);
      }
  });
}

// Whether this machine multiplies in S from panels as `pack` lays them out.
template <typename S>
bool multiplies() {
  const S a[2] = {S(1.f), S(2.f)};
  const S panel[4] = {S(3.f), S(5.f), S(7.f), S(11.f)};  // two columns, two rows
  float sums[2] = {};
  try {
    brgemm(1, 2, 2, 2, 2, 2, false, a, panel, sums, sizeof(S) == 2);
    at::native::cpublas::brgemm_release(sizeof(S) == 2);
  } catch (const std::exception&) {
    return false;
  }
  return sizeof(S) == 2 ? sums[0] == 13.f && sums[1] == 29.f   // rows interleaved
                        : sums[0] == 17.f && sums[1] == 27.f;
}

}  // namespace

#define EXPORT(S, name)                                                                        \
  extern "C" void mlstm_pack_##name(const Window* w) { pack_forward<S>(*w); }                  \
  extern "C" void mlstm_forward_##name(const Window* w) { forward<S>(*w); }                    \
  extern "C" void mlstm_backward_##name(const Window* w) { backward<S>(*w); }                  \
  extern "C" bool mlstm_multiplies_##name() { return multiplies<S>(); }                        \
  extern "C" void mlstm_sum_rows_##name(const void* values, const int64_t* indices,            \
                                        float* sums, int64_t count, int64_t columns,           \
                                        int64_t threads) {                                     \
    sum_rows<S>(static_cast<const S*>(values), indices, sums, count, columns, threads);        \
  }

EXPORT(float, float32)
EXPORT(at::BFloat16, bfloat16)
EXPORT(at::Half, float16)
