/* Products with NEON's dot products (ARMv8.2 and newer). Activations are SIGNED_BYTES. */

static void PATH(begin)(int64_t rows) { (void)rows; }

static void PATH(end)(void) {}

/* R rows times the 16 columns of a block. */
static inline __attribute__((always_inline)) void PATH(rows)(
    const int R, const int8_t *a, int64_t ld, const int8_t *w, int64_t K, int32_t *sums) {
  int32x4_t sum[4][4];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 4; j++) sum[r][j] = vdupq_n_s32(0);
  for (int64_t k = 0; k < K; k += 16) {
    int8x16_t row[4];
    for (int r = 0; r < R; r++) row[r] = vld1q_s8(a + r * ld + k);
#define QUARTER(q)                                                          \
  for (int j = 0; j < 4; j++) {                                             \
    int8x16_t column = vld1q_s8(w + (k + 4 * q) * 16 + j * 16);             \
    for (int r = 0; r < R; r++) sum[r][j] = vdotq_laneq_s32(sum[r][j], column, row[r], q); \
  }
    QUARTER(0)
    QUARTER(1)
    QUARTER(2)
    QUARTER(3)
#undef QUARTER
  }
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 4; j++) vst1q_s32(sums + r * COLUMNS + j * 4, sum[r][j]);
}

static inline __attribute__((always_inline)) void PATH(multiply)(
    const int8_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  (void)parts, (void)minus;
  for (int64_t i = 0; i < lines * (K / 64); i++) __builtin_prefetch(ahead + i * 64, 0, 2);
  for (int j = 0; j < 2; j++) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      PATH(rows)(4, a + r * ld, ld, w + j * K * 16, K, sums + r * COLUMNS + j * 16);
    for (; r + 2 <= rows; r += 2)
      PATH(rows)(2, a + r * ld, ld, w + j * K * 16, K, sums + r * COLUMNS + j * 16);
    if (r < rows) PATH(rows)(1, a + r * ld, ld, w + j * K * 16, K, sums + r * COLUMNS + j * 16);
  }
}

static int64_t PATH(peak)(int64_t repeats) {
  int32x4_t sum[16];
  int8x16_t bytes = vreinterpretq_s8_s32(vdupq_n_s32((int)repeats));
  for (int i = 0; i < 16; i++) sum[i] = vdupq_n_s32(i);
  for (int64_t n = 0; n < repeats; n++)
    for (int i = 0; i < 16; i++) sum[i] = vdotq_laneq_s32(sum[i], bytes, bytes, 0);
  int32_t kept[4];
  for (int i = 1; i < 16; i++) sum[0] = vaddq_s32(sum[0], sum[i]);
  vst1q_s32(kept, sum[0]);
  USED(kept);
  return repeats * 16 * 16;
}
