/* Products with AVX2: 16 products of int16 at a time. Activations are WORDS. */

#define FV __m256
#define FW 8
#define FR 3
#define FLOAD(p) _mm256_loadu_ps(p)
#define FSTORE(p, v) _mm256_storeu_ps(p, v)
#define FSET1(x) _mm256_set1_ps(x)
#define FMADD(a, b, c) _mm256_fmadd_ps(a, b, c)

static void PATH(begin)(int64_t rows) { (void)rows; }

static void PATH(end)(void) {}

static inline __attribute__((always_inline)) __m256i PATH(four)(const int16_t *a) {
  int64_t four;
  memcpy(&four, a, 8);
  return _mm256_set1_epi64x(four);
}

/* R rows times 8 columns of a block. */
static inline __attribute__((always_inline)) void PATH(rows)(
    const int R, const int16_t *a, int64_t ld, const int8_t *w, int64_t K, int32_t *sums) {
  __m256i sum[4][2];
  for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
  for (int64_t k = 0; k < K; k += 4) {
    __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + k * 16)));
    __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + k * 16 + 16)));
    for (int r = 0; r < R; r++) {
      __m256i four = PATH(four)(a + r * ld + k);
      sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(four, low));
      sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(four, high));
    }
  }
  for (int r = 0; r < R; r++) { /* each column has two sums, side by side */
    __m256i pairs = _mm256_hadd_epi32(sum[r][0], sum[r][1]);
    pairs = _mm256_permute4x64_epi64(pairs, 0xD8);
    _mm256_storeu_si256((__m256i *)(sums + r * COLUMNS), pairs);
  }
}

static inline __attribute__((always_inline)) void PATH(multiply)(
    const int16_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  (void)parts, (void)minus;
  for (int64_t i = 0; i < lines * (K / 64); i++) __builtin_prefetch(ahead + i * 64, 0, 2);
  for (int j = 0; j < 4; j++) {
    const int8_t *column = w + (j >> 1) * K * 16 + (j & 1) * 32;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      PATH(rows)(4, a + r * ld, ld, column, K, sums + r * COLUMNS + j * 8);
    for (; r + 2 <= rows; r += 2)
      PATH(rows)(2, a + r * ld, ld, column, K, sums + r * COLUMNS + j * 8);
    if (r < rows) PATH(rows)(1, a + r * ld, ld, column, K, sums + r * COLUMNS + j * 8);
  }
}

static int64_t PATH(peak)(int64_t repeats) {
  __m256i sum[12], words = _mm256_set1_epi32((int)repeats);
  for (int i = 0; i < 12; i++) sum[i] = _mm256_set1_epi32(i);
  for (int64_t n = 0; n < repeats; n++)
    for (int i = 0; i < 12; i++) {
      UNKNOWN(words);
      sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(words, words));
    }
  for (int i = 1; i < 12; i++) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  int32_t kept[8];
  _mm256_storeu_si256((__m256i *)kept, sum[0]);
  USED(kept);
  return repeats * 12 * 16;
}
