/* Products with WebAssembly's SIMD: 8 products of int16 at a time. Activations are WORDS. */

static void PATH(begin)(int64_t rows) { (void)rows; }

static void PATH(end)(void) {}

/* R rows times 4 columns of a block. */
static inline __attribute__((always_inline)) void PATH(rows)(
    const int R, const int16_t *a, int64_t ld, const int8_t *w, int64_t K, int32_t *sums) {
  v128_t sum[4][2];
  for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = wasm_i32x4_splat(0);
  for (int64_t k = 0; k < K; k += 4) {
    v128_t bytes = wasm_v128_load(w + k * 16);
    v128_t low = wasm_i16x8_extend_low_i8x16(bytes), high = wasm_i16x8_extend_high_i8x16(bytes);
    for (int r = 0; r < R; r++) {
      v128_t four = wasm_v128_load64_splat(a + r * ld + k);
      sum[r][0] = wasm_i32x4_add(sum[r][0], wasm_i32x4_dot_i16x8(four, low));
      sum[r][1] = wasm_i32x4_add(sum[r][1], wasm_i32x4_dot_i16x8(four, high));
    }
  }
  for (int r = 0; r < R; r++) {
    v128_t even = wasm_i32x4_shuffle(sum[r][0], sum[r][1], 0, 2, 4, 6);
    v128_t odd = wasm_i32x4_shuffle(sum[r][0], sum[r][1], 1, 3, 5, 7);
    wasm_v128_store(sums + r * COLUMNS, wasm_i32x4_add(even, odd));
  }
}

static inline __attribute__((always_inline)) void PATH(multiply)(
    const int16_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  (void)parts, (void)minus, (void)ahead, (void)lines;
  for (int j = 0; j < 8; j++) {
    const int8_t *column = w + (j >> 2) * K * 16 + (j & 3) * 16;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      PATH(rows)(4, a + r * ld, ld, column, K, sums + r * COLUMNS + j * 4);
    for (; r < rows; r++) PATH(rows)(1, a + r * ld, ld, column, K, sums + r * COLUMNS + j * 4);
  }
}

static int64_t PATH(peak)(int64_t repeats) {
  (void)repeats;
  return 0;
}
