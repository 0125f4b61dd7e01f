/* One byte of the multiplicative LSTM for the page: model/cell.py on rows of 8-bit weights.

   A matrix is int8 [rows, columns], an fp32 scale for each row. A vector that it is multiplied by
   becomes two of int16, a rough one and what that one lacks: 2^-31 of its largest value is lost.
   So products are whole numbers, of which SIMD adds eight at a time, several times as fast as
   fp32 products of weights that were int8. Everything else is fp32.

   H hidden units, a multiple of 16, so that no loop has a remainder: the writer of the page pads
   with zeros, and a unit whose weights are zero stays zero. Pointers are places in the module's
   memory, multiples of 16, which the page lays out. build.sh compiles this file.  */

#include <stdint.h>
#include <wasm_simd128.h>

#define ROWS 4          /* that share each load of the vector */
#define LARGEST 32767.0f /* of int16 */
#define REST 65534.0f   /* takes what rounding leaves, at most a half, to int16 */
#define BLOCK 2048      /* columns whose sums fit into int32: 512 * 127 * 32767 */
#define EXPORT(name) __attribute__((export_name(#name))) name

static inline v128_t load(const void *place) { return wasm_v128_load(place); }

static inline int smaller(int a, int b) { return a < b ? a : b; }

static float largest(const float *x, int columns) {
  v128_t most = wasm_f32x4_splat(1e-30f); /* a vector of zeros has a scale too */
  for (int k = 0; k < columns; k += 4) most = wasm_f32x4_max(most, wasm_f32x4_abs(load(x + k)));
  most = wasm_f32x4_max(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
  most = wasm_f32x4_max(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
  return wasm_f32x4_extract_lane(most, 0);
}

static inline v128_t to_int16(v128_t low, v128_t high) {
  low = wasm_i32x4_trunc_sat_f32x4(low), high = wasm_i32x4_trunc_sat_f32x4(high);
  return wasm_i16x8_narrow_i32x4(low, high);
}

/* Make x, of columns a multiple of 8, share * (q + rest / REST), int16; return the share. */
static float quantize(const float *x, int16_t *q, int16_t *rest, int columns) {
  float most = largest(x, columns);
  v128_t scale = wasm_f32x4_splat(LARGEST / most), of_rest = wasm_f32x4_splat(REST);
  for (int k = 0; k < columns; k += 8) {
    v128_t low = wasm_f32x4_mul(load(x + k), scale), high = wasm_f32x4_mul(load(x + k + 4), scale);
    v128_t near_low = wasm_f32x4_nearest(low), near_high = wasm_f32x4_nearest(high);
    wasm_v128_store(q + k, to_int16(near_low, near_high));
    low = wasm_f32x4_nearest(wasm_f32x4_mul(wasm_f32x4_sub(low, near_low), of_rest));
    high = wasm_f32x4_nearest(wasm_f32x4_mul(wasm_f32x4_sub(high, near_high), of_rest));
    wasm_v128_store(rest + k, to_int16(low, high));
  }
  return most / LARGEST;
}

/* The products of 16 weights, int16 already, and 16 values: four sums. */
static inline v128_t products(v128_t low, v128_t high, const int16_t *q) {
  low = wasm_i32x4_dot_i16x8(low, load(q)), high = wasm_i32x4_dot_i16x8(high, load(q + 8));
  return wasm_i32x4_add(low, high);
}

static inline float sum_of(v128_t sums) {
  v128_t v = wasm_f32x4_convert_i32x4(sums);
  return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
         (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

/* y [rows] = scale * (w [rows, columns] x [columns]); q [2, columns] is room to round x in. */
void EXPORT(product)(const int8_t *w, const float *scale, const float *x, int16_t *q, float *y,
                     int rows, int columns) {
  int16_t *rest = q + columns;
  float share = quantize(x, q, rest, columns);
  for (int row = 0; row < rows; row += ROWS) {
    float total[ROWS] = {0};
    for (int start = 0; start < columns; start += BLOCK) {
      v128_t sums[ROWS] = {0}, rests[ROWS] = {0};
      for (int k = start; k < smaller(start + BLOCK, columns); k += 16)
        for (int r = 0; r < ROWS; r++) {
          v128_t bytes = load(w + (row + r) * columns + k);
          v128_t low = wasm_i16x8_extend_low_i8x16(bytes);
          v128_t high = wasm_i16x8_extend_high_i8x16(bytes);
          sums[r] = wasm_i32x4_add(sums[r], products(low, high, q + k));
          rests[r] = wasm_i32x4_add(rests[r], products(low, high, rest + k));
        }
      for (int r = 0; r < ROWS; r++) total[r] += sum_of(sums[r]) + sum_of(rests[r]) / REST;
    }
    for (int r = 0; r < ROWS; r++) y[row + r] = scale[row + r] * share * total[r];
  }
}

/* e^x to fp32's last digits (Cephes' expf); |x| is cut at 87, where e^x is a normal number. */
static inline v128_t exponential(v128_t x) {
  x = wasm_f32x4_max(wasm_f32x4_min(x, wasm_f32x4_splat(87)), wasm_f32x4_splat(-87));
  v128_t n = wasm_f32x4_nearest(wasm_f32x4_mul(x, wasm_f32x4_splat(1.44269504088896341f)));
  x = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(0.693359375f)));
  x = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(-2.12194440e-4f)));
  const float terms[] = {1.9875691500E-4f, 1.3981999507E-3f, 8.3334519073E-3f,
                         4.1665795894E-2f, 1.6666665459E-1f, 5.0000001201E-1f};
  v128_t y = wasm_f32x4_splat(terms[0]);
  for (int i = 1; i < 6; i++)
    y = wasm_f32x4_add(wasm_f32x4_mul(y, x), wasm_f32x4_splat(terms[i]));
  y = wasm_f32x4_mul(y, wasm_f32x4_mul(x, x));
  y = wasm_f32x4_add(y, wasm_f32x4_add(x, wasm_f32x4_splat(1)));
  v128_t exponent = wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_splat(127));
  return wasm_f32x4_mul(y, wasm_i32x4_shl(exponent, 23));
}

static inline v128_t sigmoid(v128_t x) {
  v128_t one = wasm_f32x4_splat(1);
  return wasm_f32x4_div(one, wasm_f32x4_add(one, exponential(wasm_f32x4_neg(x))));
}

static inline v128_t tanh_of(v128_t x) {
  v128_t two = wasm_f32x4_splat(2);
  return wasm_f32x4_sub(wasm_f32x4_mul(two, sigmoid(wasm_f32x4_mul(two, x))), wasm_f32x4_splat(1));
}

/* Advance one layer by a byte. x_proj [5H]: the input's share of m and of the gates i f u o.
   h, c [H]: the state, replaced. m [H], q [2, H], z [4H]: room to compute in. */
void EXPORT(step)(const float *x_proj, const int8_t *w_mh, const float *s_mh, const int8_t *w_h,
                  const float *s_h, const float *b, float *h, float *c, float *m, int16_t *q,
                  float *z, int H) {
  product(w_mh, s_mh, h, q, m, H, H);
  for (int k = 0; k < H; k += 4)
    wasm_v128_store(m + k, wasm_f32x4_mul(load(x_proj + k), load(m + k)));
  product(w_h, s_h, m, q, z, 4 * H, H);
  for (int k = 0; k < 4 * H; k += 4) {
    v128_t x = wasm_f32x4_add(load(x_proj + H + k), load(b + k));
    wasm_v128_store(z + k, wasm_f32x4_add(load(z + k), x));
  }
  for (int k = 0; k < H; k += 4) {
    v128_t i = sigmoid(load(z + k)), f = sigmoid(load(z + H + k));
    v128_t u = tanh_of(load(z + 2 * H + k)), o = sigmoid(load(z + 3 * H + k));
    v128_t cell = wasm_f32x4_add(wasm_f32x4_mul(f, load(c + k)), wasm_f32x4_mul(i, u));
    wasm_v128_store(c + k, cell);
    wasm_v128_store(h + k, wasm_f32x4_mul(o, tanh_of(cell)));
  }
}
