/* The instructions of the engine's paths as functions, for processors that lack them. */

#include <stdint.h>
#include <string.h>

#define LANES(name, type, count, letter) \
  typedef struct {                       \
    type letter[count];                  \
  } name

LANES(__m128i, int8_t, 16, b);
LANES(__m256i, int32_t, 8, i);
LANES(__m512i, int32_t, 16, i);
LANES(__m256, float, 8, f);
LANES(__m512, float, 16, f);
LANES(int32x4_t, int32_t, 4, i);
LANES(int8x16_t, int8_t, 16, b);

#define LOAD(function, type, pointer)           \
  static inline type function(const pointer *p) { \
    type v;                                     \
    memcpy(&v, p, sizeof v);                    \
    return v;                                   \
  }
#define STORE(function, type, pointer) \
  static inline void function(pointer *p, type v) { memcpy(p, &v, sizeof v); }
#define SPLAT(function, type, element, letter)                                          \
  static inline type function(element x) {                                              \
    type v;                                                                             \
    for (unsigned n = 0; n < sizeof v.letter / sizeof v.letter[0]; n++) v.letter[n] = x; \
    return v;                                                                           \
  }
#define FMA(function, type)                                                  \
  static inline type function(type a, type b, type c) {                      \
    for (unsigned n = 0; n < sizeof c.f / sizeof c.f[0]; n++)                \
      c.f[n] = __builtin_fmaf(a.f[n], b.f[n], c.f[n]);                       \
    return c;                                                                \
  }

LOAD(_mm512_loadu_ps, __m512, float)
STORE(_mm512_storeu_ps, __m512, float)
SPLAT(_mm512_set1_ps, __m512, float, f)
FMA(_mm512_fmadd_ps, __m512)
LOAD(_mm512_loadu_si512, __m512i, void)
STORE(_mm512_storeu_si512, __m512i, void)
SPLAT(_mm512_set1_epi32, __m512i, int32_t, i)
static inline __m512i _mm512_setzero_si512(void) { return _mm512_set1_epi32(0); }

/* Sums wrap, as the instruction's do. */
static inline __m512i _mm512_dpbusd_epi32(__m512i c, __m512i a, __m512i b) {
  const uint8_t *x = (const uint8_t *)&a;
  const int8_t *y = (const int8_t *)&b;
  for (int n = 0; n < 64; n++) c.i[n / 4] = (int32_t)((uint32_t)c.i[n / 4] + (uint32_t)(x[n] * y[n]));
  return c;
}

LOAD(_mm256_loadu_ps, __m256, float)
STORE(_mm256_storeu_ps, __m256, float)
SPLAT(_mm256_set1_ps, __m256, float, f)
FMA(_mm256_fmadd_ps, __m256)
LOAD(_mm_loadu_si128, __m128i, __m128i)
STORE(_mm256_storeu_si256, __m256i, __m256i)
SPLAT(_mm256_set1_epi32, __m256i, int32_t, i)
static inline __m256i _mm256_setzero_si256(void) { return _mm256_set1_epi32(0); }

static inline __m256i _mm256_set1_epi64x(int64_t x) {
  __m256i v;
  for (int n = 0; n < 4; n++) memcpy(v.i + n * 2, &x, 8);
  return v;
}

static inline __m256i _mm256_cvtepi8_epi16(__m128i a) {
  int16_t words[16];
  __m256i v;
  for (int n = 0; n < 16; n++) words[n] = a.b[n];
  memcpy(&v, words, sizeof v);
  return v;
}

static inline __m256i _mm256_madd_epi16(__m256i a, __m256i b) {
  int16_t x[16], y[16];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  for (int n = 0; n < 8; n++) a.i[n] = x[2 * n] * y[2 * n] + x[2 * n + 1] * y[2 * n + 1];
  return a;
}

static inline __m256i _mm256_add_epi32(__m256i a, __m256i b) {
  for (int n = 0; n < 8; n++) a.i[n] = (int32_t)((uint32_t)a.i[n] + (uint32_t)b.i[n]);
  return a;
}

static inline __m256i _mm256_hadd_epi32(__m256i a, __m256i b) {
  __m256i v;
  for (int half = 0; half < 8; half += 4)
    for (int n = 0; n < 2; n++) {
      v.i[half + n] = (int32_t)((uint32_t)a.i[half + 2 * n] + (uint32_t)a.i[half + 2 * n + 1]);
      v.i[half + 2 + n] = (int32_t)((uint32_t)b.i[half + 2 * n] + (uint32_t)b.i[half + 2 * n + 1]);
    }
  return v;
}

static inline __m256i _mm256_permute4x64_epi64(__m256i a, int order) {
  __m256i v;
  for (int n = 0; n < 4; n++) memcpy(v.i + n * 2, a.i + (order >> 2 * n & 3) * 2, 8);
  return v;
}

/* Tiles of Intel AMX: the configuration's rows and bytes, and sixteen rows of 64 bytes each. */
typedef struct {
  int rows, bytes;
  int8_t row[16][64];
} Tile;

static _Thread_local Tile tiles[8];

static inline void _tile_loadconfig(const void *config) {
  const uint8_t *c = config;
  memset(tiles, 0, sizeof tiles);
  for (int n = 0; n < 8; n++) tiles[n].bytes = c[16 + 2 * n] + 256 * c[17 + 2 * n], tiles[n].rows = c[48 + n];
}

static inline void _tile_release(void) { memset(tiles, 0, sizeof tiles); }

static inline void _tile_zero(int n) { memset(tiles[n].row, 0, sizeof tiles[n].row); }

static inline void _tile_loadd(int n, const void *base, int64_t stride) {
  _tile_zero(n);
  for (int r = 0; r < tiles[n].rows; r++)
    memcpy(tiles[n].row[r], (const char *)base + r * stride, (size_t)tiles[n].bytes);
}

#define _tile_stream_loadd _tile_loadd

static inline void _tile_stored(int n, void *base, int64_t stride) {
  for (int r = 0; r < tiles[n].rows; r++)
    memcpy((char *)base + r * stride, tiles[n].row[r], (size_t)tiles[n].bytes);
}

static inline void _tile_dpbssd(int c, int a, int b) {
  for (int m = 0; m < tiles[c].rows; m++) {
    uint32_t sums[16];
    memcpy(sums, tiles[c].row[m], sizeof sums);
    for (int k = 0; k < tiles[a].bytes / 4; k++)
      for (int n = 0; n < tiles[c].bytes / 4; n++)
        for (int i = 0; i < 4; i++)
          sums[n] += (uint32_t)(tiles[a].row[m][4 * k + i] * tiles[b].row[k][4 * n + i]);
    memcpy(tiles[c].row[m], sums, sizeof sums);
  }
}

/* NEON */
LOAD(vld1q_s8, int8x16_t, int8_t)
STORE(vst1q_s32, int32x4_t, int32_t)
SPLAT(vdupq_n_s32, int32x4_t, int32_t, i)

static inline int32x4_t vaddq_s32(int32x4_t a, int32x4_t b) {
  for (int n = 0; n < 4; n++) a.i[n] = (int32_t)((uint32_t)a.i[n] + (uint32_t)b.i[n]);
  return a;
}

static inline int8x16_t vreinterpretq_s8_s32(int32x4_t a) {
  int8x16_t v;
  memcpy(&v, &a, sizeof v);
  return v;
}

static inline int32x4_t vdotq_laneq_s32(int32x4_t sum, int8x16_t a, int8x16_t b, int lane) {
  for (int n = 0; n < 16; n++)
    sum.i[n / 4] = (int32_t)((uint32_t)sum.i[n / 4] + (uint32_t)(a.b[n] * b.b[lane * 4 + n % 4]));
  return sum;
}
