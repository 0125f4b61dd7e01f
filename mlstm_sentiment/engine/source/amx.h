/* Products with Intel AMX: tiles of 16 rows of 64 signed bytes. Activations are SIGNED_BYTES. */

typedef struct __attribute__((packed)) {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} TileConfig;

#define FV __m512
#define FW 16
#define FR 8
#define FLOAD(p) _mm512_loadu_ps(p)
#define FSTORE(p, v) _mm512_storeu_ps(p, v)
#define FSET1(x) _mm512_set1_ps(x)
#define FMADD(a, b, c) _mm512_fmadd_ps(a, b, c)

/* Use tiles of so many rows of activations: all 16, or fewer if there are no more. */
static void PATH(begin)(int64_t rows) {
  TileConfig config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
  if (rows < 16) config.rows[0] = config.rows[1] = config.rows[4] = (uint8_t)rows;
  USED(&config); /* GCC 12 believes that 8 of its bytes are loaded */
  _tile_loadconfig(&config);
}

static void PATH(end)(void) { _tile_release(); }

/* 64 of K, from each of the tiles of rows; the numbers in tiles are constants. Rows are streamed, so
   that the columns, which all rows need, stay in the first cache: a tenth of the time.  */
#define TILES_OF_16                                                                    \
  _tile_stream_loadd(4, a + k, ld);                                                     \
  _tile_loadd(6, w + k * 16, 64);                                                      \
  _tile_loadd(7, w1 + k * 16, 64);                                                     \
  _tile_dpbssd(0, 4, 6);                                                               \
  _tile_dpbssd(1, 4, 7);                                                               \
  for (int64_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
#define TILES_OF_32                                                                    \
  _tile_stream_loadd(4, a + k, ld);                                                     \
  _tile_loadd(6, w + k * 16, 64);                                                      \
  _tile_loadd(7, w1 + k * 16, 64);                                                     \
  _tile_dpbssd(0, 4, 6);                                                               \
  _tile_stream_loadd(5, a1 + k, ld);                                                    \
  _tile_dpbssd(1, 4, 7);                                                               \
  _tile_dpbssd(2, 5, 6);                                                               \
  _tile_dpbssd(3, 5, 7);                                                               \
  for (int64_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);

/* sums [rows, 32] = rows of activations times 32 columns, whose blocks are w and w + K * 16.
   ahead: what to fetch for later, `lines` cache lines for each 64 of K. AFTER: what to do after each
   of these.  */
#define MULTIPLY(AFTER)                                        \
  const int8_t *w1 = w + K * 16, *a1 = a + 16 * ld;            \
  USED(a); /* GCC does not know that tiles are loaded from it */ \
  _tile_zero(0);                                               \
  _tile_zero(1);                                               \
  if (rows <= 16) {                                            \
    for (int64_t k = 0; k < K; k += 64) {                      \
      TILES_OF_16                                              \
      AFTER                                                    \
    }                                                          \
  } else {                                                     \
    _tile_zero(2);                                             \
    _tile_zero(3);                                             \
    for (int64_t k = 0; k < K; k += 64) {                      \
      TILES_OF_32                                              \
      AFTER                                                    \
    }                                                          \
    _tile_stored(2, sums + 16 * COLUMNS, COLUMNS * 4);         \
    _tile_stored(3, sums + 16 * COLUMNS + 16, COLUMNS * 4);    \
  }                                                            \
  _tile_stored(0, sums, COLUMNS * 4);                          \
  _tile_stored(1, sums + 16, COLUMNS * 4);

static inline __attribute__((always_inline)) void PATH(multiply)(
    const int8_t *a, int64_t ld, int64_t rows, int64_t parts, const int8_t *w, const int32_t *minus,
    int64_t K, int32_t *sums, const char *ahead, int64_t lines) {
  (void)parts, (void)minus;
  MULTIPLY()
}

/* Tiles and vectors are separate units of a core. So lanes of the task before are finished between
   the products of this one. */
#define MULTIPLY_WHILE                                                                           \
  INLINE void PATH(multiply_while_kind)(                                                         \
      const int8_t *a, int64_t ld, int64_t rows, const int8_t *w, int64_t K, int32_t *sums,      \
      const char *ahead, int64_t lines, const PATH(Step) *at, const PATH(Task) *task,            \
      const int kind) {                                                                          \
    int64_t r = 0;                                                                               \
    const int64_t count = task->count, each = 16 * 64 / K ? 16 * 64 / K : 1;                     \
    MULTIPLY(for (int64_t end = r + each < count ? r + each : count; r < end; r++)               \
                 PATH(finish)(at, task, r, kind, 0);)                                            \
    for (; r < count; r++) PATH(finish)(at, task, r, kind, 0);                                   \
  }                                                                                              \
  INLINE void PATH(multiply_while)(                                                              \
      const int8_t *a, int64_t ld, int64_t rows, const int8_t *w, int64_t K, int32_t *sums,      \
      const char *ahead, int64_t lines, const PATH(Step) *at, PATH(Task) *task) {                \
    if (task->kind == M)                                                                         \
      PATH(multiply_while_kind)(a, ld, rows, w, K, sums, ahead, lines, at, task, M);             \
    else if (task->kind == FIRST_GATES)                                                          \
      PATH(multiply_while_kind)(a, ld, rows, w, K, sums, ahead, lines, at, task, FIRST_GATES);   \
    else if (task->kind == LAST_GATES)                                                           \
      PATH(multiply_while_kind)(a, ld, rows, w, K, sums, ahead, lines, at, task, LAST_GATES);    \
    else                                                                                         \
      PATH(multiply_while_kind)(a, ld, rows, w, K, sums, ahead, lines, at, task, LOGITS);        \
    task->kind = NOTHING;                                                                        \
  }

/* Multiply-adds of int8 from registers alone, and how many they were. */
static int64_t PATH(peak)(int64_t repeats) {
  PATH(begin)(16);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < repeats; i++) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  PATH(end)();
  return repeats * 4 * 16 * 16 * 64;
}
