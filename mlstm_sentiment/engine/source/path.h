/* The whole computation for one instruction set; engine.c includes it once for each.

   Everything but the products is written with vectors of 16 floats that the compiler maps to what
   the instruction set has, and without fused multiply-adds. Products of integers are exact. So all
   paths give the same bits for a model of integers. A lane's numbers depend on its own text only.  */

#if FORMAT == WORDS
typedef int16_t PATH(Activation);
#define PER_LANE(parts) ((void)(parts), 1)
#else
typedef int8_t PATH(Activation);
#define PER_LANE(parts) (parts)
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE f16 PATH(load)(const float *p) {
  f16 v;
  memcpy(&v, p, sizeof v);
  return v;
}

INLINE void PATH(store)(float *p, f16 v) { memcpy(p, &v, sizeof v); }

INLINE f16 PATH(splat)(float x) { return (f16){0} + x; }

INLINE f16 PATH(choose)(i16 mask, f16 yes, f16 no) {
  return (f16)((mask & (i16)yes) | (~mask & (i16)no));
}

INLINE f16 PATH(largest)(f16 a, f16 b) { return PATH(choose)(a > b, a, b); }

INLINE f16 PATH(smallest)(f16 a, f16 b) { return PATH(choose)(a < b, a, b); }

INLINE f16 PATH(absolute)(f16 a) { return (f16)((i16)a & 0x7fffffff); }

INLINE float PATH(top)(f16 v) {
  float x[16], top;
  PATH(store)(x, v);
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
  top = x[0];
  return top;
}

INLINE int PATH(any)(i16 mask) {
  uint64_t parts[8], all = 0;
  memcpy(parts, &mask, sizeof parts);
  for (int i = 0; i < 8; i++) all |= parts[i];
  return all != 0;
}

/* 2^t for |t| <= 126, to 2e-7 of it: a polynomial of what is left of the nearest whole number. */
INLINE f16 PATH(exp2)(f16 t) {
  f16 shifted = t + ROUNDING;
  f16 f = t - (shifted - ROUNDING);
  f16 y = f * EXP2_5 + EXP2_4;
  y = y * f + EXP2_3;
  y = y * f + EXP2_2;
  y = y * f + EXP2_1;
  y = y * f + 1.0f;
  return (f16)((i16)y + ((i16)shifted << 23)); /* the whole number is in shifted's last bits */
}

INLINE f16 PATH(clip)(f16 t, float most) {
  return PATH(largest)(PATH(smallest)(t, PATH(splat)(most)), PATH(splat)(-most));
}

INLINE f16 PATH(tanh)(f16 x) {
  f16 e = PATH(exp2)(PATH(clip)(x * (-2 * LOG2_E), MOST_EXPONENT));
  return (1.0f - e) / (1.0f + e);
}

/* Round a row [K] to integers, and keep the factor that they lack; see `Rows`. */
static void PATH(quantize)(const float *x, const Rows *to, int64_t lane, int64_t K) {
  PATH(Activation) *rows = (PATH(Activation) *)to->data + lane * PER_LANE(to->parts) * to->ld;
  f16 most = PATH(splat)(1e-30f);
  for (int64_t k = 0; k < K; k += 16)
    most = PATH(largest)(most, PATH(absolute)(PATH(load)(x + k)));
  float limit = (float)to->limit, top = PATH(top)(most);
  f16 factor = PATH(splat)(limit / top);
  to->scale[lane] = top / limit;
  for (int64_t k = 0; k < K; k += 16) {
    f16 v = PATH(load)(x + k) * factor + ROUNDING;
    i16 a = (i16)v - ROUNDING_BITS;
#if FORMAT == WORDS
    w16 words = __builtin_convertvector(a, w16);
    memcpy(rows + k, &words, sizeof words);
#else
#if FORMAT == UNSIGNED_BYTES
    i16 high = to->parts == 2 ? (a >> 8) + 128 : a + 128, low = a & 255;
#else
    i16 high = to->parts == 2 ? (a + 128) >> 8 : a, low = a - (high << 8);
#endif
    b16 bytes = __builtin_convertvector(high, b16);
    memcpy(rows + k, &bytes, sizeof bytes);
    if (to->parts == 2) {
      bytes = __builtin_convertvector(low, b16);
      memcpy(rows + to->ld + k, &bytes, sizeof bytes);
    }
#endif
  }
}

/* Floats: R rows times 32 columns, each a sum over k in order. */
#ifdef FV
INLINE void PATH(float_rows)(const int R, const float *a, int64_t ld, const float *w, int64_t K,
                             float *sums) {
  FV sum[FR][32 / FW];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 32 / FW; j++) sum[r][j] = FSET1(0);
  for (int64_t k = 0; k < K; k++) {
    FV column[32 / FW];
    for (int j = 0; j < 32 / FW; j++)
      column[j] = FLOAD(w + (j * FW / 16) * K * 16 + k * 16 + j * FW % 16);
    for (int r = 0; r < R; r++) {
      FV value = FSET1(a[r * ld + k]);
      for (int j = 0; j < 32 / FW; j++) sum[r][j] = FMADD(value, column[j], sum[r][j]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 32 / FW; j++) FSTORE(sums + r * COLUMNS + j * FW, sum[r][j]);
}
#else
#define FR 2
INLINE void PATH(float_rows)(const int R, const float *a, int64_t ld, const float *w, int64_t K,
                             float *sums) {
  f16 sum[FR][2] = {0};
  for (int64_t k = 0; k < K; k++)
    for (int r = 0; r < R; r++)
      for (int j = 0; j < 2; j++)
        sum[r][j] += PATH(load)(w + j * K * 16 + k * 16) * a[r * ld + k];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < 2; j++) PATH(store)(sums + r * COLUMNS + j * 16, sum[r][j]);
}
#endif

/* The product of a lane and 16 columns, before it is scaled. */
INLINE f16 PATH(value)(const void *sums, int64_t lane, int half, int64_t parts, const int floats) {
  i16 v, low;
  if (floats) return PATH(load)((const float *)sums + lane * COLUMNS + half * 16);
  const int32_t *from = (const int32_t *)sums + lane * PER_LANE(parts) * COLUMNS + half * 16;
  memcpy(&v, from, sizeof v);
  if (PER_LANE(parts) == 2) {
    memcpy(&low, from + COLUMNS, sizeof low);
    v = (i16)(((u16)v << 8) + (u16)low);
  }
  return __builtin_convertvector(v, f16);
}

/* What a step of a layer works with. */
typedef struct {
  const Model *model;
  const Layer *layer;
  Work *work;
  const Rows *in, *h_rows, *m_rows;
  float *c, *h; /* while decoding, h: where the logits go, NULL if only their sums count */
} PATH(Step);

/* Products that are computed, and what is still to be done with them. */
typedef struct {
  int kind;             /* NOTHING, or of what the products are */
  int64_t index;        /* the panel of m, or the block of 16 units */
  int64_t lane, count;  /* the first lane, and how many, at most 16 */
  int32_t *recurrent, *input; /* the products' two terms */
} PATH(Task);

/* m of a lane: the product of its two terms. */
INLINE void PATH(finish_m)(const PATH(Step) *at, const PATH(Task) *task, int64_t r, const int floats) {
  const int64_t lane = task->lane + r;
  const f16 share = PATH(splat)(at->h_rows->scale[lane] * at->in->scale[lane]);
  for (int half = 0; half < 2; half++) {
    int64_t unit = task->index * COLUMNS + half * 16;
    f16 m = PATH(value)(task->recurrent, r, half, at->h_rows->parts, floats) *
            PATH(load)(at->layer->m_scale + unit);
    m = m * (PATH(value)(task->input, r, half, at->in->parts, floats) * share);
    PATH(store)(at->work->m + lane * at->model->H + unit, m);
  }
}

/* Two gates of 16 units of a lane: the first two are kept, the last two complete the cell. */
INLINE void PATH(finish_gates)(const PATH(Step) *at, const PATH(Task) *task, int64_t r,
                               const int last, const int floats) {
  const int64_t lane = task->lane + r, place = lane * at->model->H + task->index * 16;
  const f16 share = PATH(splat)(at->m_rows->scale[lane]), x_share = PATH(splat)(at->in->scale[lane]);
  float *z = at->work->z + lane * 32;
  f16 e[2];
  for (int half = 0; half < 2; half++) {
    int64_t column = task->index * 64 + last * 32 + half * 16;
    f16 v = PATH(value)(task->recurrent, r, half, at->m_rows->parts, floats);
    f16 x = PATH(value)(task->input, r, half, at->in->parts, floats);
    v = v * (PATH(load)(at->layer->h.scale + column) * share) +
        x * (PATH(load)(at->layer->x.scale + column) * x_share) + PATH(load)(at->layer->b + column);
    /* The scales and b have the factor -log2 e already, u's twice that. */
    e[half] = PATH(exp2)(PATH(clip)(v, MOST_EXPONENT));
  }
  if (!last) {
    PATH(store)(z, e[0]);
    PATH(store)(z + 16, e[1]);
    return;
  }
  /* c = sigmoid(f) c + sigmoid(i) tanh(u), and h = sigmoid(o) tanh(c), with one division each */
  f16 i = PATH(load)(z) + 1.0f, f = PATH(load)(z + 16) + 1.0f, u = e[0], o = e[1] + 1.0f;
  f16 below = i * (u + 1.0f);
  f16 c = (PATH(load)(at->c + place) * below + (1.0f - u) * f) / (below * f);
  PATH(store)(at->c + place, c);
  f16 t = PATH(exp2)(PATH(clip)(c * (-2 * LOG2_E), MOST_EXPONENT));
  PATH(store)(at->h + place, (1.0f - t) / (o * (1.0f + t)));
}

/* 32 logits of a lane, for the cost of its next token. */
INLINE void PATH(finish_logits)(const PATH(Step) *at, const PATH(Task) *task, int64_t r,
                                const int floats) {
  const Model *model = at->model;
  const int64_t lane = task->lane + r, first = task->index * COLUMNS;
  const f16 share = PATH(splat)(at->h_rows->scale[lane]);
  Work *work = at->work;
  f16 z[2];
  for (int half = 0; half < 2; half++) {
    int64_t column = first + half * 16;
    z[half] = PATH(value)(task->recurrent, r, half, at->h_rows->parts, floats) *
                  (PATH(load)(model->decoder.scale + column) * share) +
              PATH(load)(model->decoder_bias + column);
  }
  if (at->h) { /* the logits themselves are wanted */
    PATH(store)(at->h + lane * model->decoder.N + first, z[0]);
    PATH(store)(at->h + lane * model->decoder.N + first + 16, z[1]);
    return;
  }
  int64_t target = work->target[lane] - first;
  if (target >= 0 && target < COLUMNS) {
    float both[32];
    PATH(store)(both, z[0]);
    PATH(store)(both + 16, z[1]);
    work->score[lane] = both[target];
  }
  /* The sum of exponentials is relative to `peak`, which need not be the largest. */
  float *total = work->total + lane * 16, peak = work->peak[lane];
  if (PATH(any)((z[0] > peak + FAR) | (z[1] > peak + FAR))) {
    float top = PATH(top)(PATH(largest)(z[0], z[1]));
    float lower = peak - top < -80 ? -80 : peak - top;
    PATH(store)(total, PATH(load)(total) * PATH(exp2)(PATH(splat)(lower * LOG2_E)));
    work->peak[lane] = peak = top;
  }
  f16 e = PATH(exp2)(PATH(clip)((z[0] - peak) * LOG2_E, 126));
  e = e + PATH(exp2)(PATH(clip)((z[1] - peak) * LOG2_E, 126));
  PATH(store)(total, PATH(load)(total) + e);
}

INLINE void PATH(finish)(const PATH(Step) *at, const PATH(Task) *task, int64_t r, const int kind,
                         const int floats) {
  if (kind == M)
    PATH(finish_m)(at, task, r, floats);
  else if (kind == FIRST_GATES || kind == LAST_GATES)
    PATH(finish_gates)(at, task, r, kind == LAST_GATES, floats);
  else
    PATH(finish_logits)(at, task, r, floats);
}

/* Finish a task; between its lanes, nothing else is computed. */
INLINE void PATH(finish_all)(const PATH(Step) *at, PATH(Task) *task, const int floats) {
  if (task->kind == M)
    for (int64_t r = 0; r < task->count; r++) PATH(finish)(at, task, r, M, floats);
  else if (task->kind == FIRST_GATES)
    for (int64_t r = 0; r < task->count; r++) PATH(finish)(at, task, r, FIRST_GATES, floats);
  else if (task->kind == LAST_GATES)
    for (int64_t r = 0; r < task->count; r++) PATH(finish)(at, task, r, LAST_GATES, floats);
  else if (task->kind == LOGITS)
    for (int64_t r = 0; r < task->count; r++) PATH(finish)(at, task, r, LOGITS, floats);
  task->kind = NOTHING;
}

#ifdef MULTIPLY_WHILE /* the path multiplies while it finishes another task */
MULTIPLY_WHILE
#endif

/* sums = rows of n lanes from `lane` times the 32 columns from 32 * panel. Meanwhile another task,
   if any, is finished. */
INLINE void PATH(product)(const Rows *a, int64_t lane, int64_t n, const Matrix *m, int64_t panel,
                          const int floats, int64_t groups, void *sums, const PATH(Step) *at,
                          PATH(Task) *meanwhile) {
  const int64_t K = m->K;
  if (floats) {
    if (meanwhile) PATH(finish_all)(at, meanwhile, 1);
    const float *w = (const float *)m->panels + panel * K * COLUMNS;
    const float *rows = (const float *)a->data + lane * a->ld;
    int64_t r = 0;
    for (; r + FR <= n; r += FR)
      PATH(float_rows)(FR, rows + r * a->ld, a->ld, w, K, (float *)sums + r * COLUMNS);
    for (; r < n; r++)
      PATH(float_rows)(1, rows + r * a->ld, a->ld, w, K, (float *)sums + r * COLUMNS);
    return;
  }
  const int8_t *w = (const int8_t *)m->panels + panel * K * COLUMNS;
  const PATH(Activation) *rows =
      (const PATH(Activation) *)a->data + lane * PER_LANE(a->parts) * a->ld;
  int64_t lines = (32 + groups - 1) / groups; /* the next panel, spread over the groups of lanes */
  const char *ahead = (const char *)w + K * COLUMNS + lane / 16 * (K / 64) * lines * 64;
#ifdef MULTIPLY_WHILE
  if (meanwhile && meanwhile->kind != NOTHING) {
    PATH(multiply_while)(rows, a->ld, n * PER_LANE(a->parts), w, K, (int32_t *)sums, ahead, lines, at,
                         meanwhile);
    return;
  }
#else
  if (meanwhile) PATH(finish_all)(at, meanwhile, 0);
#endif
  PATH(multiply)(rows, a->ld, n * PER_LANE(a->parts), a->parts, w, m->minus + panel * COLUMNS, K,
                 (int32_t *)sums, ahead, lines);
}

/* Advance a layer by one token of each of n lanes. */
INLINE void PATH(layer)(const Model *model, Work *work, int64_t index, int64_t n, const int floats) {
  const Layer *layer = model->layer + index;
  const Rows *in = index ? work->h_rows + index - 1 : &work->x, *h_rows = work->h_rows + index;
  const int64_t H = model->H, groups = (n + 15) / 16;
  int32_t sums[4][32 * COLUMNS] __attribute__((aligned(64)));
  work->m_rows.limit = model->parts == 2 ? layer->h.limit : 127;
  const PATH(Step) at = {model, layer, work, in, h_rows, &work->m_rows, work->c[index], work->h[index]};
  PATH(Task) before = {NOTHING, 0, 0, 0, NULL, NULL};
  int turn = 0; /* the products of the task before lie in the other half of sums */

  for (int64_t panel = 0; panel < H / COLUMNS; panel++)
    for (int64_t lane = 0; lane < n; lane += 16, turn ^= 2) {
      int64_t count = n - lane < 16 ? n - lane : 16;
      PATH(product)(h_rows, lane, count, &layer->mh, panel, floats, groups, sums[turn], &at, &before);
      PATH(product)(in, lane, count, &layer->mx, panel, floats, groups, sums[turn + 1], &at, NULL);
      before = (PATH(Task)){M, panel, lane, count, sums[turn], sums[turn + 1]};
    }
  PATH(finish_all)(&at, &before, floats);
  if (!floats)
    for (int64_t lane = 0; lane < n; lane++)
      PATH(quantize)(work->m + lane * H, &work->m_rows, lane, H);
  for (int64_t pair = 0; pair < H / 8; pair++) /* of gates, of a block of 16 units */
    for (int64_t lane = 0; lane < n; lane += 16, turn ^= 2) {
      int64_t count = n - lane < 16 ? n - lane : 16;
      PATH(product)(at.m_rows, lane, count, &layer->h, pair, floats, groups, sums[turn], &at, &before);
      PATH(product)(in, lane, count, &layer->x, pair, floats, groups, sums[turn + 1], &at, NULL);
      before = (PATH(Task)){pair & 1 ? LAST_GATES : FIRST_GATES, pair / 2, lane, count, sums[turn],
                            sums[turn + 1]};
    }
  PATH(finish_all)(&at, &before, floats);
  if (!floats)
    for (int64_t lane = 0; lane < n; lane++) PATH(quantize)(at.h + lane * H, h_rows, lane, H);
}

/* Get what predicting the next token costs, from n rows of the last layer's h; or only the logits. */
INLINE void PATH(decode)(const Model *model, Work *work, const Rows *rows, int64_t n, float *logits,
                         const int floats) {
  const int64_t groups = (n + 15) / 16;
  int32_t sums[2][32 * COLUMNS] __attribute__((aligned(64)));
  const PATH(Step) at = {model, NULL, work, NULL, rows, NULL, NULL, logits};
  PATH(Task) before = {NOTHING, 0, 0, 0, NULL, NULL};
  int turn = 0;
  for (int64_t lane = 0; lane < n; lane++) {
    work->peak[lane] = -3e38f;
    memset(work->total + lane * 16, 0, 16 * sizeof(float));
  }
  for (int64_t panel = 0; panel < model->decoder.N / COLUMNS; panel++)
    for (int64_t lane = 0; lane < n; lane += 16, turn ^= 1) {
      int64_t count = n - lane < 16 ? n - lane : 16;
      PATH(product)(rows, lane, count, &model->decoder, panel, floats, groups, sums[turn], &at, &before);
      before = (PATH(Task)){LOGITS, panel, lane, count, sums[turn], NULL};
    }
  PATH(finish_all)(&at, &before, floats);
}

INLINE void PATH(pool)(const Job *job, const Model *model, Work *work, int64_t lane) {
  const int64_t H = model->H, at = work->lane[lane].position;
  for (int64_t i = 0; i < job->choices; i++) {
    int64_t layer = job->chosen[i], place = (lane * job->choices + i) * H;
    const float *state = (job->cell ? work->c : work->h)[layer] + lane * H;
    float *shown = work->shown + place;
    if (!job->squash && !job->mean && !job->highest && !job->lowest) continue;
    for (int64_t k = 0; k < H; k += 16) {
      f16 v = PATH(load)(state + k);
      if (job->squash) {
        v = PATH(tanh)(v);
        PATH(store)(shown + k, v);
      }
      if (job->mean) PATH(store)(work->sum + place + k, PATH(load)(work->sum + place + k) + v);
      if (job->highest)
        PATH(store)(work->high + place + k, PATH(largest)(PATH(load)(work->high + place + k), v));
      if (job->lowest)
        PATH(store)(work->low + place + k, PATH(smallest)(PATH(load)(work->low + place + k), v));
    }
    if (job->mean && (at + 1) % SUMMED == 0) /* fp32 would lose digits in a long text */
      for (int64_t k = 0; k < H; k++) {
        work->long_sum[place + k] += work->sum[place + k];
        work->sum[place + k] = 0;
      }
  }
}

/* Process one token of each of n lanes; see `read_lanes`. */
static void PATH(step)(const Model *model, const Job *job, Work *work, int64_t n) {
  const int floats = model->floats;
  const Rows *rows = job->nats ? work->h_rows + model->L - 1 : &work->watched_rows;
  const int64_t decoded = job->nats ? n : work->watched;
  if (decoded) {
    if (floats)
      PATH(decode)(model, work, rows, decoded, NULL, 1);
    else
      PATH(decode)(model, work, rows, decoded, NULL, 0);
  }
  for (int64_t index = 0; index < model->L; index++) {
    if (floats)
      PATH(layer)(model, work, index, n, 1);
    else
      PATH(layer)(model, work, index, n, 0);
  }
  if (job->clamp_layer >= 0)
    for (int64_t lane = 0; lane < n; lane++) {
      int64_t place = lane * model->H + job->clamp_unit;
      if (job->clamp_cell == job->clamp_cell) work->c[job->clamp_layer][place] = job->clamp_cell;
      if (job->clamp_hidden == job->clamp_hidden) {
        work->h[job->clamp_layer][place] = job->clamp_hidden;
        if (!floats)
          PATH(quantize)(work->h[job->clamp_layer] + lane * model->H,
                         work->h_rows + job->clamp_layer, lane, model->H);
      }
    }
  for (int64_t lane = 0; lane < n; lane++) PATH(pool)(job, model, work, lane);
}

static void PATH(logits)(const Model *model, Work *work, int64_t n, float *logits) {
  const Rows *rows = work->h_rows + model->L - 1;
  if (model->floats)
    PATH(decode)(model, work, rows, n, logits, 1);
  else
    PATH(decode)(model, work, rows, n, logits, 0);
}

/* exp, and the functions of the gates, for the tests: y [3, count] of x, a multiple of 16. */
static void PATH(functions)(const float *x, float *y, int64_t count) {
  for (int64_t k = 0; k < count; k += 16) {
    f16 v = PATH(load)(x + k);
    PATH(store)(y + k, PATH(exp2)(PATH(clip)(v * LOG2_E, 126)));
    PATH(store)(y + count + k, 1.0f / (1.0f + PATH(exp2)(PATH(clip)(v * -LOG2_E, MOST_EXPONENT))));
    PATH(store)(y + 2 * count + k, PATH(tanh)(v));
  }
}

static const Path PATH(path) = {PATH(begin),    PATH(end),  PATH(step),      PATH(logits),
                                PATH(quantize), PATH(peak), PATH(functions), FORMAT};

#undef INLINE
#undef MULTIPLY_WHILE
#undef PER_LANE
#undef FV
#undef FW
#undef FR
#undef FLOAD
#undef FSTORE
#undef FSET1
#undef FMADD
