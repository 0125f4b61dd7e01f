/* A multiplicative LSTM that processes texts: model/cell.py, on the integers that a model stores.

   A matrix of integers is multiplied as it is stored. Weight norm is part of the factor of each of
   its rows, so no weight is rounded again. The vectors that it is multiplied by are rounded to 16
   bits, times a factor of their own ("exact"), or to 8 ("fast"). A product is then a whole number,
   below 2^31, and every instruction set gives the same one. Matrices of floats are multiplied in
   fp32.

   One library has a path for each instruction set; the caller chooses one that
   `engine_path_runs`. Texts are processed in lanes, many at the same time, each step a token of
   each. A lane whose text ends takes the next text. What a lane computes depends on its text alone,
   not on the other lanes.

   Everything is freed before a function returns, but for a model. Nothing is global. Functions may
   be called by several threads, also with the same model.  */

#include "engine.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between inlined functions only */
#endif

#ifdef __wasm__
#include "bare.h"
#else
#include <math.h>
#include <stdlib.h>
#include <string.h>
#endif

typedef float f16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef uint32_t u16 __attribute__((vector_size(64)));
typedef int16_t w16 __attribute__((vector_size(32)));
typedef int8_t b16 __attribute__((vector_size(16)));

#ifndef SOURCES
#define SOURCES ""
#endif

#define COLUMNS 32 /* of a matrix that are multiplied at the same time, a panel */
#define LOG2_E 1.44269504088896341f
#define EXP2_1 0.6931470036506653f
#define EXP2_2 0.24022242426872253f
#define EXP2_3 0.05550733581185341f
#define EXP2_4 0.009671512991189957f
#define EXP2_5 0.001326472731307149f
#define ROUNDING 12582912.0f /* 1.5 * 2^23: adding it rounds to a whole number */
#define ROUNDING_BITS 0x4B400000
#define MOST_EXPONENT 40.0f /* the product of three powers of 2 fits fp32; 2^-40 is nothing next to 1 */
#define FAR 60.0f           /* how far above the first one a logit may be before sums start anew */
#define SUMMED 64           /* tokens whose states are summed in fp32 */
#define LARGEST 32639       /* of an activation's two parts: 127 * 256 + 127 */

#define WORDS 0 /* the formats of activations, see `Rows` */
#define SIGNED_BYTES 1
#define UNSIGNED_BYTES 2

enum { NOTHING, M, FIRST_GATES, LAST_GATES, LOGITS }; /* what a task is about, see path.h */

/* The paths, slowest first. */
enum { PLAIN, NEON, AVX2, VNNI, AMX, PATHS };

/* Rows of activations, ready for products: value = integer * scale of its lane.

   WORDS: int16 [lanes, ld]. Bytes: int8 [lanes, parts, ld]; value = 256 * first part + second.
   UNSIGNED_BYTES: the first part is 128 too large. Floats: fp32 [lanes, ld], and scales of 1.  */
typedef struct {
  void *data;
  float *scale;
  int64_t ld, parts, limit; /* limit: the largest integer */
} Rows;

/* A matrix [N, K], ready for products. N: of 32 rows each, a panel: two blocks of 16. A block:
   [K / 4, 16, 4] integers, or [K, 16] floats. What is beyond the stored matrix is zero.  */
typedef struct {
  void *panels;
  float *scale;   /* [N] */
  int32_t *minus; /* [N], -128 times the sums of its rows */
  int64_t N, K, limit; /* limit: of an activation, so that no sum of products is beyond int32 */
} Matrix;

typedef struct {
  Matrix mh, mx, h, x; /* h and x: 16 units of each gate in turn */
  float *m_scale, *b;  /* [H], [4H] */
} Layer;

typedef struct {
  int64_t H, E, V, L, units, vocabulary; /* H, E and V with what pads them */
  int64_t floats, parts, path;
  Layer *layer;
  void *embed; /* [vocabulary, E], as `Rows` of one part */
  float *embed_scale;
  Matrix decoder; /* without panels until `engine_prepare_decoder` */
  StoredMatrix stored_decoder;
  float *decoder_bias;
  int64_t *h_limit; /* [L], of the products that read a layer's h */
  void *blocks;
} Model;

typedef struct {
  int64_t text, position, length;
  double excess; /* of bits, over what is allowed for the bytes so far */
  int decided;   /* whether that no longer matters */
} Lane;

typedef struct {
  Lane *lane;
  float **h, **c, *m, *z; /* [L][lanes, H], [lanes, H], [lanes, 32] */
  Rows *h_rows, m_rows, x;
  float *sum, *high, *low, *shown; /* [lanes, layers chosen, H] */
  double *long_sum;
  float *peak, *total, *score; /* [lanes], [lanes, 16], [lanes] */
  int64_t *target;
  Rows watched_rows;     /* the last layer's h of the lanes that are not decided */
  int64_t *watched_lane; /* which they are */
  int64_t watched;       /* how many */
  void *blocks;
} Work;

typedef struct {
  void (*begin)(int64_t);
  void (*end)(void);
  void (*step)(const Model *, const Job *, Work *, int64_t);
  void (*logits)(const Model *, Work *, int64_t, float *);
  void (*quantize)(const float *, const Rows *, int64_t, int64_t);
  int64_t (*peak)(int64_t);
  void (*functions)(const float *, float *, int64_t);
  int64_t format;
} Path;

/* ---- The instruction sets ---- */

#ifdef EMULATED /* the tests: every path, with functions instead of instructions */
#include EMULATED
#define HAS_X86 1
#define HAS_NEON 1
#elif defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <immintrin.h>
#define HAS_X86 1
#elif defined(__aarch64__) && (defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__))
#include <arm_neon.h> /* clang 14's has dot products only where every function may use them */
#define HAS_NEON 1
#endif

/* For a compiler that would leave out what it believes to be of no use. */
#ifdef EMULATED
#define UNKNOWN(vector) (void)(vector)
#else
#define UNKNOWN(vector) __asm__ volatile("" : "+x"(vector))
#endif
#define USED(address) __asm__ volatile("" : : "r"(address) : "memory")

#ifdef EMULATED
#define BEGIN_TARGET(options)
#define END_TARGET
#elif defined(__clang__)
#define DO_PRAGMA(text) _Pragma(#text)
#define BEGIN_TARGET(options) \
  DO_PRAGMA(clang attribute push(__attribute__((target(options))), apply_to = function))
#define END_TARGET _Pragma("clang attribute pop")
#define DOT_PRODUCTS "dotprod"
#define WHOLE_VECTORS ""
#else
#define DO_PRAGMA(text) _Pragma(#text)
#define BEGIN_TARGET(options) _Pragma("GCC push_options") DO_PRAGMA(GCC target(options))
#define END_TARGET _Pragma("GCC pop_options")
#define DOT_PRODUCTS "arch=armv8.2-a+dotprod"
#define WHOLE_VECTORS ",prefer-vector-width=512"
#endif

#ifdef __wasm__
#include <wasm_simd128.h>
#define PATH(name) wasm_##name
#define FORMAT WORDS
#include "wasm.h"
#include "path.h"
#undef PATH
#undef FORMAT
#else
#define PATH(name) plain_##name
#define FORMAT WORDS
#include "plain.h"
#include "path.h"
#undef PATH
#undef FORMAT
#endif

#ifdef HAS_NEON
BEGIN_TARGET(DOT_PRODUCTS)
#define PATH(name) neon_##name
#define FORMAT SIGNED_BYTES
#include "neon.h"
#include "path.h"
#undef PATH
#undef FORMAT
END_TARGET
#endif

#ifdef HAS_X86
#define AVX512_VNNI "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma"
BEGIN_TARGET("avx2,fma")
#define PATH(name) avx2_##name
#define FORMAT WORDS
#include "avx2.h"
#include "path.h"
#undef PATH
#undef FORMAT
END_TARGET

BEGIN_TARGET(AVX512_VNNI WHOLE_VECTORS)
#define PATH(name) vnni_##name
#define FORMAT UNSIGNED_BYTES
#include "vnni.h"
#include "path.h"
#undef PATH
#undef FORMAT
END_TARGET

BEGIN_TARGET("amx-tile,amx-int8," AVX512_VNNI WHOLE_VECTORS)
#define PATH(name) amx_##name
#define FORMAT SIGNED_BYTES
#include "amx.h"
#include "path.h"
#undef PATH
#undef FORMAT
END_TARGET
#endif

static const Path *path_of(int64_t path) {
  switch (path) {
#ifdef __wasm__
  case PLAIN: return &wasm_path;
#else
  case PLAIN: return &plain_path;
#endif
#ifdef HAS_NEON
  case NEON: return &neon_path;
#endif
#ifdef HAS_X86
  case AVX2: return &avx2_path;
  case VNNI: return &vnni_path;
  case AMX: return &amx_path;
#endif
  default: return NULL;
  }
}

#if defined(HAS_X86) && !defined(EMULATED)
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Ask Linux for the tiles of Intel AMX. It grants them to the whole process, for good; nothing else
   changes, but a thread's signal stack must have room for them. */
static int request_tiles(void) {
#ifdef __linux__
  const int REQUEST = 0x1023, TILE_DATA = 18;
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return 0;
#endif
}

static int has_tiles(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 25 & 1)) return 0;
  return request_tiles();
}
#endif

#if defined(HAS_NEON) && defined(__linux__) && !defined(EMULATED)
#include <sys/auxv.h>
static int has_dot_products(void) { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; }
#elif defined(HAS_NEON)
static int has_dot_products(void) { return 1; }
#endif

/* Return whether this processor can run a path: 0 plain, 1 neon, 2 avx2, 3 vnni, 4 amx. Asking for
   amx requests the tiles from Linux, so ask only for a path that will be used. */
int64_t EXPORT(engine_path_runs)(int64_t path) {
  switch (path) {
  case PLAIN: return 1;
#ifdef EMULATED
  default: return path < PATHS;
#else
#ifdef HAS_NEON
  case NEON: return has_dot_products();
#endif
#ifdef HAS_X86
  case AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case VNNI:
  case AMX:
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512vnni"))
      return 0;
    return path == VNNI || has_tiles();
#endif
  default: return 0;
#endif
  }
}

/* ---- Memory ---- */

/* Return zeros at a multiple of 64; NULL if there is no memory. Blocks form a chain, by which they
   are freed together. */
static void *take(void **chain, int64_t bytes) {
  char *block = calloc((size_t)bytes + 128, 1);
  if (!block) return NULL;
  memcpy(block, chain, sizeof *chain);
  *chain = block;
  return block + 64 + (64 - (uintptr_t)block % 64) % 64;
}

static void give_back(void *chain) {
  while (chain) { /* the last one first */
    void *before;
    memcpy(&before, chain, sizeof before);
    free(chain);
    chain = before;
  }
}

static void *of_model(Model *model, int64_t bytes) { return take(&model->blocks, bytes); }

static void *of_work(Work *work, int64_t bytes) { return take(&work->blocks, bytes); }

/* ---- A model ---- */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The natural logarithm of a positive, normal number, the same on every system. */
static double logarithm(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  int64_t exponent = (int64_t)(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  memcpy(&x, &bits, 8);
  if (x > 1.4142135623730951) x /= 2, exponent++;
  double s = (x - 1) / (x + 1), square = s * s, sum = 0;
  for (int i = 21; i > 1; i -= 2) sum = (sum + 1.0 / i) * square;
  return (double)exponent * 0.6931471805599453 + 2 * s * (1 + sum);
}

static int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int64_t row_bytes(const StoredMatrix *m) {
  return m->scale ? (m->columns * m->bits + 7) / 8 : m->columns * 4;
}

/* Unpack the integers of a row; return their sum of squares, and add up their absolute values. */
static int64_t unpack(const StoredMatrix *m, int64_t row, int8_t *to, int64_t *absolute) {
  const uint8_t *from = (const uint8_t *)m->data + row * row_bytes(m);
  const int bits = (int)m->bits;
  int64_t squares = 0, sum = 0;
  uint32_t kept = 0;
  if (bits == 8)
    memcpy(to, from, (size_t)m->columns);
  else
    for (int64_t k = 0, have = 0; k < m->columns; k++) {
      if (have < bits) kept = kept << 8 | *from++, have += 8;
      have -= bits;
      to[k] = (int8_t)(int32_t)((uint32_t)(kept >> have) << (32 - bits) >> 24);
      to[k] = (int8_t)(to[k] >> (8 - bits));
    }
  for (int64_t k = 0; k < m->columns; k++) {
    squares += to[k] * to[k];
    sum += to[k] < 0 ? -to[k] : to[k];
  }
  if (sum > *absolute) *absolute = sum;
  return squares;
}

/* Return the largest activation with which no sum of products leaves int32. */
static int64_t limit_of(int64_t absolute) {
  int64_t limit = absolute ? INT32_MAX / absolute : LARGEST;
  return limit < LARGEST ? limit : LARGEST;
}

/* Return in which row of the ready matrix a stored row stands. */
static int64_t place_of(int64_t row, int64_t units, int64_t gates) {
  if (gates == 1) return row;
  int64_t gate = row / units, unit = row % units;
  return unit / 16 * 64 + gate * 16 + unit % 16;
}

/* Make a stored matrix ready; 0 if there is no memory. */
static int prepare(Model *model, const StoredMatrix *m, Matrix *to, int64_t gates) {
  const int64_t units = m->rows / gates;
  to->N = m == &model->stored_decoder ? model->V : model->H * gates;
  to->K = padded(m->columns, 64);
  to->panels = of_model(model, to->N * to->K * (model->floats ? 4 : 1));
  to->scale = of_model(model, to->N * 4);
  to->minus = of_model(model, to->N * 4);
  int8_t *row = calloc((size_t)to->K, 1);
  if (!to->panels || !to->scale || !to->minus || !row) {
    free(row);
    to->panels = NULL; /* not ready */
    return 0;
  }
  int64_t absolute = 0;
  for (int64_t r = 0; r < m->rows; r++) {
    int64_t place = place_of(r, units, gates), block = place / 16, column = place % 16;
    double norm = 0;
    if (model->floats) {
      const float *from = (const float *)m->data + r * m->columns;
      float *panel = (float *)to->panels + block * 16 * to->K, factor = 1;
      if (m->gain) {
        for (int64_t k = 0; k < m->columns; k++) norm += (double)from[k] * from[k];
        factor = norm > 0 ? (float)(m->gain[r] / sqrt(norm)) : 0;
      }
      for (int64_t k = 0; k < m->columns; k++) panel[k * 16 + column] = from[k] * factor;
      to->scale[place] = 1;
      continue;
    }
    int8_t *panel = (int8_t *)to->panels + block * 16 * to->K;
    int32_t sum = 0;
    norm = (double)unpack(m, r, row, &absolute);
    for (int64_t k = 0; k < to->K; k += 4) memcpy(panel + k * 16 + column * 4, row + k, 4);
    for (int64_t k = 0; k < m->columns; k++) sum += row[k];
    to->minus[place] = -128 * sum;
    to->scale[place] = m->scale[r];
    if (m->gain) to->scale[place] = norm > 0 ? (float)(m->gain[r] / sqrt(norm)) : 0;
  }
  free(row);
  to->limit = limit_of(absolute);
  return 1;
}

/* The limit of the decoder's products. Few integers are large enough to have to look at them. */
static int64_t decoder_limit(const StoredMatrix *m) {
  int64_t absolute = 0, most = (m->columns << (m->bits - 1));
  if (limit_of(most) == LARGEST || m->bits < 8) return limit_of(most);
  for (int64_t r = 0; r < m->rows; r++) {
    const int8_t *row = (const int8_t *)m->data + r * m->columns;
    int64_t sum = 0;
    for (int64_t k = 0; k < m->columns; k++) sum += row[k] < 0 ? -row[k] : row[k];
    if (sum > absolute) absolute = sum;
  }
  return limit_of(absolute);
}

static int prepare_embedding(Model *model, const StoredMatrix *m) {
  const int64_t format = path_of(model->path)->format;
  const int64_t bytes = model->floats ? 4 : format == WORDS ? 2 : 1;
  model->embed = of_model(model, m->rows * model->E * bytes);
  model->embed_scale = of_model(model, m->rows * 4);
  int8_t *row = calloc((size_t)model->E, 1);
  if (!model->embed || !model->embed_scale || !row) {
    free(row);
    return 0;
  }
  for (int64_t r = 0; r < m->rows; r++) {
    int64_t absolute = 0;
    model->embed_scale[r] = model->floats ? 1 : m->scale[r];
    if (model->floats)
      memcpy((float *)model->embed + r * model->E, (const float *)m->data + r * m->columns,
             (size_t)m->columns * 4);
    else
      unpack(m, r, row, &absolute);
    for (int64_t k = 0; k < model->E && !model->floats; k++)
      if (format == WORDS)
        ((int16_t *)model->embed)[r * model->E + k] = row[k];
      else
        ((uint8_t *)model->embed)[r * model->E + k] =
            (uint8_t)(format == UNSIGNED_BYTES ? row[k] + 128 : row[k]);
  }
  free(row);
  return 1;
}

static int prepare_layer(Model *model, const StoredLayer *from, Layer *to) {
  if (!prepare(model, &from->mh, &to->mh, 1) || !prepare(model, &from->mx, &to->mx, 1) ||
      !prepare(model, &from->h, &to->h, 4) || !prepare(model, &from->x, &to->x, 4))
    return 0;
  to->m_scale = of_model(model, model->H * 4);
  to->b = of_model(model, model->H * 16);
  if (!to->m_scale || !to->b) return 0;
  for (int64_t unit = 0; unit < model->H; unit++)
    to->m_scale[unit] = to->mh.scale[unit] * to->mx.scale[unit];
  for (int64_t row = 0; row < model->units * 4; row++)
    to->b[place_of(row, model->units, 4)] = from->b[row];
  for (int64_t place = 0; place < model->H * 4; place++) { /* see the gates in path.h */
    float factor = place / 16 % 4 == 2 ? -2 * LOG2_E : -LOG2_E;
    to->b[place] *= factor;
    to->h.scale[place] *= factor;
    to->x.scale[place] *= factor;
  }
  return 1;
}

void EXPORT(engine_free)(Model *model) {
  if (!model) return;
  give_back(model->blocks);
  free(model);
}

/* Return a model ready for one path; NULL if there is no memory, or if it has no such path. */
Handle EXPORT(engine_prepare)(const StoredModel *stored) {
  Model *model = calloc(1, sizeof *model);
  if (!model || !path_of(stored->path)) {
    free(model);
    return NULL;
  }
  model->units = stored->hidden, model->H = padded(stored->hidden, 64);
  model->E = padded(stored->embedding, 64), model->L = stored->layers;
  model->vocabulary = stored->vocabulary, model->V = padded(stored->vocabulary, COLUMNS);
  model->floats = stored->embed.scale == NULL;
  model->parts = stored->parts, model->path = stored->path;
  model->layer = of_model(model, model->L * (int64_t)sizeof *model->layer);
  model->h_limit = of_model(model, model->L * 8);
  model->stored_decoder = stored->decoder;
  model->decoder_bias = of_model(model, model->V * 4);
  if (!model->layer || !model->h_limit || !model->decoder_bias ||
      !prepare_embedding(model, &stored->embed))
    return engine_free(model), NULL;
  for (int64_t v = 0; v < model->V; v++) /* what pads it is never likely */
    model->decoder_bias[v] = v < model->vocabulary ? stored->decoder_bias[v] : -1e30f;
  for (int64_t i = 0; i < model->L; i++)
    if (!prepare_layer(model, stored->layer + i, model->layer + i)) return engine_free(model), NULL;
  for (int64_t i = 0; i < model->L; i++) {
    int64_t above = i + 1 < model->L
                        ? smaller(model->layer[i + 1].mx.limit, model->layer[i + 1].x.limit)
                        : model->floats ? LARGEST : decoder_limit(&stored->decoder);
    model->h_limit[i] = smaller(model->layer[i].mh.limit, above);
  }
  return model;
}

/* Make the decoder ready, once before it is first needed; 0 if there is no memory. */
int64_t EXPORT(engine_prepare_decoder)(Model *model) {
  return model->decoder.panels || prepare(model, &model->stored_decoder, &model->decoder, 1);
}

/* ---- Texts in lanes ---- */

/* Let rows of `count` layers use their parts of one block; 0 if there is no memory. */
static int take_rows(const Model *model, Work *work, Rows *rows, int64_t count, int64_t lanes,
                     int64_t parts, int64_t K, float *floats) {
  const int64_t format = path_of(model->path)->format;
  const int64_t ld = K + 64; /* rows at a power of two would share sets of the cache */
  const int64_t bytes = lanes * ld * (format == WORDS ? 2 : parts);
  float *scale = of_work(work, count * lanes * 4);
  char *data = model->floats ? (char *)floats : of_work(work, count * bytes);
  if (!scale || !data) return 0;
  for (int64_t i = 0; i < count * lanes; i++) scale[i] = 1;
  for (int64_t i = 0; i < count; i++) {
    rows[i].parts = parts;
    rows[i].scale = scale + i * lanes;
    rows[i].ld = model->floats ? K : ld;
    rows[i].data = data + i * (model->floats ? lanes * K * 4 : bytes);
  }
  return 1;
}

static int take_work(const Model *model, const Job *job, Work *work, int64_t lanes) {
  lanes = padded(lanes, 16);
  const int64_t H = model->H, L = model->L, wide = lanes * job->choices * H;
  const int64_t pointers = L * (int64_t)sizeof(float *);
  work->lane = of_work(work, lanes * (int64_t)sizeof *work->lane);
  work->h = of_work(work, pointers);
  work->c = of_work(work, pointers);
  work->h_rows = of_work(work, L * (int64_t)sizeof *work->h_rows);
  float *h = of_work(work, L * lanes * H * 4), *c = of_work(work, L * lanes * H * 4);
  float *x = of_work(work, model->floats ? lanes * model->E * 4 : 0);
  work->m = of_work(work, lanes * H * 4);
  work->z = of_work(work, lanes * 32 * 4);
  work->peak = of_work(work, lanes * 4);
  work->total = of_work(work, lanes * 16 * 4);
  work->score = of_work(work, lanes * 4);
  work->target = of_work(work, lanes * 8);
  work->watched_lane = of_work(work, lanes * 8);
  float *watched = of_work(work, model->floats && job->excess ? lanes * H * 4 : 0);
  if (job->mean) work->sum = of_work(work, wide * 4), work->long_sum = of_work(work, wide * 8);
  if (job->highest) work->high = of_work(work, wide * 4);
  if (job->lowest) work->low = of_work(work, wide * 4);
  if (job->squash) work->shown = of_work(work, wide * 4);
  if (!work->lane || !work->h || !work->c || !work->h_rows || !h || !c || !x || !work->m ||
      !work->z || !work->peak || !work->total || !work->score || !work->target || !work->watched_lane || !watched ||
      (job->mean && !(work->sum && work->long_sum)) || (job->highest && !work->high) ||
      (job->lowest && !work->low) || (job->squash && !work->shown))
    return 0;
  for (int64_t i = 0; i < L; i++)
    work->h[i] = h + i * lanes * H, work->c[i] = c + i * lanes * H;
  if (!take_rows(model, work, &work->x, 1, lanes, 1, model->E, x) ||
      !take_rows(model, work, &work->m_rows, 1, lanes, model->parts, H, work->m) ||
      !take_rows(model, work, work->h_rows, L, lanes, model->parts, H, h))
    return 0;
  if (job->excess && !take_rows(model, work, &work->watched_rows, 1, lanes, model->parts, H, watched))
    return 0;
  work->x.limit = 127;
  for (int64_t i = 0; i < L; i++)
    work->h_rows[i].limit = model->parts == 2 ? model->h_limit[i] : 127;
  return 1;
}

/* Make h, already in place, what products read. */
static void take_h(const Model *model, Work *work, int64_t layer, int64_t lane) {
  if (!model->floats)
    path_of(model->path)->quantize(work->h[layer] + lane * model->H, work->h_rows + layer, lane,
                                   model->H);
}

/* Set a lane to the state before a text. */
static void begin_text(const Model *model, const Job *job, Work *work, int64_t lane, int64_t text) {
  const int64_t H = model->H, units = model->units, wide = job->choices * H;
  work->lane[lane] =
      (Lane){text, 0, job->offsets[text + 1] - job->offsets[text], -job->allowed_bits, 0};
  for (int64_t i = 0; i < model->L; i++) {
    float *h = work->h[i] + lane * H, *c = work->c[i] + lane * H;
    memset(h, 0, (size_t)H * 4);
    memset(c, 0, (size_t)H * 4);
    if (job->first_h) memcpy(h, job->first_h + (text * model->L + i) * units, (size_t)units * 4);
    if (job->first_c) memcpy(c, job->first_c + (text * model->L + i) * units, (size_t)units * 4);
    take_h(model, work, i, lane);
  }
  for (int64_t k = lane * wide; k < (lane + 1) * wide; k++) {
    if (job->mean) work->sum[k] = 0, work->long_sum[k] = 0;
    if (job->highest) work->high[k] = -3.4e38f;
    if (job->lowest) work->low[k] = 3.4e38f;
    if (job->squash) work->shown[k] = 0;
  }
}

static void end_text(const Model *model, const Job *job, const Work *work, int64_t lane) {
  const int64_t H = model->H, units = model->units, text = work->lane[lane].text;
  const int64_t length = work->lane[lane].length;
  for (int64_t i = 0; i < job->choices; i++) {
    int64_t from = (lane * job->choices + i) * H, to = (text * job->choices + i) * units;
    const float *state = (job->cell ? work->c : work->h)[job->chosen[i]] + lane * H;
    if (job->squash) state = work->shown + from;
    if (job->last && length) memcpy(job->last + to, state, (size_t)units * 4);
    for (int64_t k = 0; k < units; k++) {
      if (job->mean)
        job->mean[to + k] = (float)((work->long_sum[from + k] + work->sum[from + k]) /
                                    (double)(length ? length : 1));
      if (job->highest) job->highest[to + k] = length ? work->high[from + k] : 0;
      if (job->lowest) job->lowest[to + k] = length ? work->low[from + k] : 0;
    }
  }
  if (job->excess) job->excess[text] = (float)work->lane[lane].excess;
  for (int64_t i = 0; i < model->L; i++) {
    int64_t to = (text * model->L + i) * units;
    if (job->final_h) memcpy(job->final_h + to, work->h[i] + lane * H, (size_t)units * 4);
    if (job->final_c) memcpy(job->final_c + to, work->c[i] + lane * H, (size_t)units * 4);
  }
}

/* Move all of a lane to another. */
static void move_lane(const Model *model, const Job *job, Work *work, int64_t from, int64_t to) {
  const int64_t H = model->H, wide = job->choices * H;
  work->lane[to] = work->lane[from];
  for (int64_t i = 0; i < model->L; i++) {
    memcpy(work->h[i] + to * H, work->h[i] + from * H, (size_t)H * 4);
    memcpy(work->c[i] + to * H, work->c[i] + from * H, (size_t)H * 4);
    take_h(model, work, i, to);
  }
  if (job->mean) {
    memcpy(work->sum + to * wide, work->sum + from * wide, (size_t)wide * 4);
    memcpy(work->long_sum + to * wide, work->long_sum + from * wide, (size_t)wide * 8);
  }
  if (job->highest) memcpy(work->high + to * wide, work->high + from * wide, (size_t)wide * 4);
  if (job->lowest) memcpy(work->low + to * wide, work->low + from * wide, (size_t)wide * 4);
  if (job->squash) memcpy(work->shown + to * wide, work->shown + from * wide, (size_t)wide * 4);
}

/* Begin the next text that has tokens in a lane; 0 if there is none. Texts without any end at once. */
static int next_text(const Model *model, const Job *job, Work *work, int64_t lane) {
  for (;;) {
    int64_t place = __atomic_fetch_add(job->next, 1, __ATOMIC_RELAXED);
    if (place >= job->texts) return 0;
    begin_text(model, job, work, lane, job->order[place]);
    if (work->lane[lane].length) return 1;
    end_text(model, job, work, lane);
  }
}

/* Set what a lane reads next. */
static void take_token(const Model *model, const Job *job, Work *work, int64_t lane) {
  const Lane *at = work->lane + lane;
  const int64_t format = path_of(model->path)->format;
  const int64_t bytes = model->floats ? 4 : format == WORDS ? 2 : 1;
  int32_t token = job->tokens[job->offsets[at->text] + at->position];
  memcpy((char *)work->x.data + lane * work->x.ld * bytes,
         (const char *)model->embed + token * model->E * bytes, (size_t)(model->E * bytes));
  work->x.scale[lane] = model->embed_scale[token];
  work->target[lane] = token;
}

static double nats_of(const Work *work, int64_t row) {
  double total = 0;
  for (int i = 0; i < 16; i++) total += work->total[row * 16 + i];
  return (float)(logarithm(total) + work->peak[row] - work->score[row]);
}

/* Put what the decoder reads of the lanes that are not decided into rows of their own. */
static void take_watched(const Model *model, const Job *job, Work *work, int64_t lanes) {
  const Rows *from = work->h_rows + model->L - 1, *to = &work->watched_rows;
  const int64_t words = path_of(model->path)->format == WORDS;
  const int64_t bytes = from->ld * (model->floats ? 4 : words ? 2 : model->parts);
  work->watched = 0;
  for (int64_t lane = 0; lane < lanes && job->excess; lane++) {
    if (work->lane[lane].decided) continue;
    int64_t row = work->watched++; /* at most the lane, so no target is lost */
    memcpy((char *)to->data + row * bytes, (const char *)from->data + lane * bytes, (size_t)bytes);
    to->scale[row] = from->scale[lane];
    work->target[row] = work->target[lane];
    work->watched_lane[row] = lane;
  }
}

static void decide(const Job *job, Work *work) {
  for (int64_t row = 0; row < work->watched; row++) {
    Lane *lane = work->lane + work->watched_lane[row];
    lane->excess += nats_of(work, row) / 0.6931471805599453 -
                    job->bits_per_byte * job->token_bytes[work->target[row]];
    lane->decided = lane->excess > job->margin || lane->excess < -job->margin;
  }
}

/* Keep what a step gave for a lane's token. */
static void keep(const Model *model, const Job *job, Work *work, int64_t lane) {
  const Lane *at = work->lane + lane;
  const int64_t token = job->offsets[at->text] + at->position, H = model->H;
  for (int64_t i = 0; i < job->choices && job->unit_states; i++) {
    const float *state = (job->cell ? work->c : work->h)[job->chosen[i]] + lane * H;
    if (job->squash) state = work->shown + (lane * job->choices + i) * H;
    float *to = job->unit_states + (token * job->choices + i) * job->unit_count;
    for (int64_t unit = 0; unit < job->unit_count; unit++) to[unit] = state[job->units[unit]];
  }
  if (job->nats) job->nats[token] = (float)nats_of(work, lane);
}

/* Process texts in lanes until none is left. Return the tokens processed, or -1 if stopped. */
static int64_t read_lanes(const Model *model, const Job *job, Work *work) {
  const Path *path = path_of(model->path);
  const int64_t per_lane = path->format == WORDS ? 1 : model->parts;
  int64_t active = 0, processed = 0;
  while (active < job->lanes && next_text(model, job, work, active)) active++;
  for (int64_t begun = -1; active;) {
    if (begun != active) path->begin(active * per_lane);
    begun = active;
    for (int64_t lane = 0; lane < active; lane++) take_token(model, job, work, lane);
    take_watched(model, job, work, active);
    path->step(model, job, work, active);
    decide(job, work);
    for (int64_t lane = 0; lane < active; lane++) keep(model, job, work, lane);
    processed += active;
    for (int64_t lane = active - 1; lane >= 0; lane--) {
      if (++work->lane[lane].position < work->lane[lane].length) continue;
      end_text(model, job, work, lane);
      if (next_text(model, job, work, lane)) continue;
      active--;
      if (lane < active) move_lane(model, job, work, active, lane);
    }
    __atomic_fetch_add(job->done, begun, __ATOMIC_RELAXED);
    if (__atomic_load_n(job->stop, __ATOMIC_RELAXED)) return -1;
  }
  return processed;
}

/* Process the texts of a job that no other thread has begun. Return the tokens processed; -1 if
   stopped, -2 if there is no memory. */
int64_t EXPORT(engine_read)(const Model *model, const Job *job) {
  Work work;
  memset(&work, 0, sizeof work);
  int64_t processed = -2;
  if (take_work(model, job, &work, job->lanes)) {
    processed = read_lanes(model, job, &work);
    path_of(model->path)->end();
  }
  give_back(work.blocks);
  return processed;
}

/* Write the logits [N, V] of the token after states h [N, H]; 0 if there is no memory. */
int64_t EXPORT(engine_logits)(const Model *model, int64_t texts, const float *h, float *logits) {
  const Path *path = path_of(model->path);
  const int64_t per_lane = path->format == WORDS ? 1 : model->parts, units = model->units;
  const int64_t lanes = smaller(texts, 64), wide = model->decoder.N;
  Job job;
  Work work;
  memset(&job, 0, sizeof job);
  memset(&work, 0, sizeof work);
  float *padded_logits = NULL;
  int64_t ready = take_work(model, &job, &work, lanes) &&
                  (padded_logits = of_work(&work, lanes * wide * 4)) != NULL;
  for (int64_t first = 0; ready && first < texts; first += lanes) {
    int64_t count = smaller(lanes, texts - first);
    for (int64_t lane = 0; lane < count; lane++) {
      memcpy(work.h[model->L - 1] + lane * model->H, h + (first + lane) * units, (size_t)units * 4);
      take_h(model, &work, model->L - 1, lane);
    }
    path->begin(count * per_lane);
    path->logits(model, &work, count, padded_logits);
    path->end();
    for (int64_t lane = 0; lane < count; lane++)
      memcpy(logits + (first + lane) * model->vocabulary, padded_logits + lane * wide,
             (size_t)model->vocabulary * 4);
  }
  give_back(work.blocks);
  return ready;
}

/* Return a digest of the sources, which the build gives. */
Text EXPORT(engine_sources)(void) { return SOURCES; }

/* Multiply from registers alone; return how many products. For the benchmark. */
int64_t EXPORT(engine_peak)(int64_t path, int64_t repeats) { return path_of(path)->peak(repeats); }

/* y [3, count] = exp, sigmoid and tanh of x, count a multiple of 16. For the tests. */
void EXPORT(engine_functions)(int64_t path, const float *x, float *y, int64_t count) {
  path_of(path)->functions(x, y, count);
}
