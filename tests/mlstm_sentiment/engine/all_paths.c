/* Print, for each path that this processor runs, a digest of what a made-up model computes. */

#include "engine.c"

#include <stdio.h>

static uint32_t seed = 1;

static int below(int most) {
  seed = seed * 1664525u + 1013904223u;
  return (int)(seed >> 8) % most;
}

static float *floats(int64_t count, float scale) {
  float *to = malloc((size_t)count * sizeof *to);
  for (int64_t i = 0; i < count; i++) to[i] = scale * (0.5f + (float)below(1000) / 1000.0f);
  return to;
}

static StoredMatrix matrix(int64_t rows, int64_t columns, int gain) {
  int8_t *to = malloc((size_t)(rows * columns));
  for (int64_t i = 0; i < rows * columns; i++) to[i] = (int8_t)(below(255) - 127);
  return (StoredMatrix){to, floats(rows, 0.002f), gain ? floats(rows, 1.5f) : NULL, rows, columns, 8};
}

int main(void) {
  enum { H = 100, E = 33, V = 256, L = 2, TEXTS = 24 };
  StoredLayer layers[L];
  for (int i = 0; i < L; i++) {
    int64_t in = i ? H : E;
    layers[i] = (StoredLayer){matrix(H, in, 1), matrix(4 * H, in, 1), matrix(H, H, 1),
                              matrix(4 * H, H, 1), floats(4 * H, 0.1f)};
  }
  StoredModel stored = {H, E, V, L, layers, matrix(V, E, 0), matrix(V, H, 0), floats(V, 0.1f), 2, 0};
  int64_t offsets[TEXTS + 1] = {0}, order[TEXTS], chosen = 1;
  for (int i = 0; i < TEXTS; i++) offsets[i + 1] = offsets[i] + 1 + below(30), order[i] = i;
  const int64_t total = offsets[TEXTS], count = TEXTS * H * 2 + total;
  int32_t *tokens = malloc((size_t)total * sizeof *tokens);
  for (int64_t i = 0; i < total; i++) tokens[i] = below(V);
  for (stored.parts = 1; stored.parts <= 2; stored.parts++)
    for (stored.path = 0; stored.path < PATHS; stored.path++) {
      if (!engine_path_runs(stored.path)) continue;
      Model *model = engine_prepare(&stored);
      engine_prepare_decoder(model);
      float *results = calloc((size_t)count, sizeof *results);
      int64_t next = 0, done = 0;
      int32_t stop = 0;
      Job job = {.texts = TEXTS, .tokens = tokens, .offsets = offsets, .order = order, .next = &next,
                 .stop = &stop, .done = &done, .lanes = 19, .chosen = &chosen, .choices = 1,
                 .last = results, .mean = results + TEXTS * H, .nats = results + 2 * TEXTS * H,
                 .clamp_layer = -1};
      engine_read(model, &job);
      uint64_t digest = 14695981039346656037ull;
      for (size_t i = 0; i < (size_t)count * sizeof *results; i++)
        digest = (digest ^ ((uint8_t *)results)[i]) * 1099511628211ull;
      printf("%d %d %016llx\n", (int)stored.parts, (int)stored.path, (unsigned long long)digest);
    }
  return 0;
}
