/* Products in plain C, for processors without any of the other paths. Activations are WORDS. */

static void PATH(begin)(int64_t rows) { (void)rows; }

static void PATH(end)(void) {}

static inline __attribute__((always_inline)) void PATH(multiply)(
    const int16_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  (void)parts, (void)minus, (void)ahead, (void)lines;
  for (int64_t r = 0; r < rows; r++)
    for (int j = 0; j < 2; j++) {
      int32_t sum[16] = {0};
      for (int64_t k = 0; k < K; k += 4) {
        const int8_t *four = w + (j * K + k) * 16;
        const int16_t *row = a + r * ld + k;
        for (int c = 0; c < 16; c++)
          sum[c] += four[c * 4] * row[0] + four[c * 4 + 1] * row[1] + four[c * 4 + 2] * row[2] +
                    four[c * 4 + 3] * row[3];
      }
      memcpy(sums + r * COLUMNS + j * 16, sum, sizeof sum);
    }
}

static int64_t PATH(peak)(int64_t repeats) {
  (void)repeats;
  return 0;
}
