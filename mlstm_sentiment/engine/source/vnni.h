/* Products with AVX512-VNNI: 64 products of an unsigned and a signed byte at a time.

   Activations are UNSIGNED_BYTES, 128 too large; `minus` takes 128 times the weights off. */

#define FV __m512
#define FW 16
#define FR 8
#define FLOAD(p) _mm512_loadu_ps(p)
#define FSTORE(p, v) _mm512_storeu_ps(p, v)
#define FSET1(x) _mm512_set1_ps(x)
#define FMADD(a, b, c) _mm512_fmadd_ps(a, b, c)

static void PATH(begin)(int64_t rows) { (void)rows; }

static void PATH(end)(void) {}

static inline __attribute__((always_inline)) __m512i PATH(four)(const int8_t *a) {
  int32_t four;
  memcpy(&four, a, 4);
  return _mm512_set1_epi32(four);
}

/* R rows, of which the odd ones are low parts if there are two. */
static inline __attribute__((always_inline)) void PATH(rows)(
    const int R, const int8_t *a, int64_t ld, const int8_t *w, const int32_t *minus, int64_t parts,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  const int8_t *w1 = w + K * 16;
  __m512i sum[8][2];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 2; j++)
      sum[r][j] = parts == 2 && (r & 1) ? _mm512_setzero_si512() : _mm512_loadu_si512(minus + j * 16);
  for (int64_t k = 0; k < K; k += 4) {
    __m512i low = _mm512_loadu_si512(w + k * 16), high = _mm512_loadu_si512(w1 + k * 16);
    for (int r = 0; r < R; r++) {
      __m512i four = PATH(four)(a + r * ld + k);
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], four, low);
      sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], four, high);
    }
    if (!(k & 63))
      for (int64_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
  }
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 2; j++) _mm512_storeu_si512(sums + r * COLUMNS + j * 16, sum[r][j]);
}

/* As in amx.h; minus [32]. */
static inline __attribute__((always_inline)) void PATH(multiply)(
    const int8_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8, lines = 0)
    PATH(rows)(8, a + r * ld, ld, w, minus, parts, K, sums + r * COLUMNS, ahead, lines);
  for (; r + 2 <= rows; r += 2, lines = 0)
    PATH(rows)(2, a + r * ld, ld, w, minus, parts, K, sums + r * COLUMNS, ahead, lines);
  if (r < rows) PATH(rows)(1, a + r * ld, ld, w, minus, parts, K, sums + r * COLUMNS, ahead, lines);
}

static int64_t PATH(peak)(int64_t repeats) {
  __m512i sum[16], bytes = _mm512_set1_epi32((int)repeats);
  for (int i = 0; i < 16; i++) sum[i] = _mm512_set1_epi32(i);
  for (int64_t n = 0; n < repeats; n++) {
    for (int i = 0; i < 16; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], bytes, bytes);
    UNKNOWN(bytes);
  }
  for (int i = 1; i < 16; i++) sum[0] = _mm512_dpbusd_epi32(sum[0], sum[i], bytes);
  int32_t kept[16];
  _mm512_storeu_si512(kept, sum[0]);
  USED(kept);
  return repeats * 16 * 64;
}
