/* What Python, or the web page, passes to the engine and gets from it; see engine.c.

   H hidden units, E embedding size, V tokens, L layers, N texts. Pointers to floats and integers
   are to C-contiguous arrays.  */

#ifndef MLSTM_ENGINE_H
#define MLSTM_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT(name) __declspec(dllexport) name
#elif defined(__wasm__)
#define EXPORT(name) __attribute__((export_name(#name))) name
#else
#define EXPORT(name) __attribute__((visibility("default"))) name
#endif

typedef void *Handle; /* of a model that is ready; EXPORT cannot follow a star */
typedef const char *Text;

/* A matrix as a model's file stores it. */
typedef struct {
  const void *data;   /* fp32 [rows, columns], or rows of integers, packed without gaps */
  const float *scale; /* [rows], of the integers; NULL: the data are fp32 */
  const float *gain;  /* [rows], of weight norm; NULL: none */
  int64_t rows, columns;
  int64_t bits; /* of an integer, 2 to 8; 8: int8, fewer: big-endian, each row from a whole byte */
} StoredMatrix;

/* A layer as stored: w_mx [H, in], w_x [4H, in], w_mh [H, H], w_h [4H, H], b [4H], gates i f u o. */
typedef struct {
  StoredMatrix mx, x, mh, h;
  const float *b;
} StoredLayer;

typedef struct {
  int64_t hidden, embedding, vocabulary, layers;
  const StoredLayer *layer; /* [L] */
  StoredMatrix embed;       /* [V, E] */
  StoredMatrix decoder;     /* [V, H]; kept by the caller until the model is freed */
  const float *decoder_bias; /* [V]; kept as well */
  int64_t parts; /* int8 parts of an activation: 2, exact; 1, fast */
  int64_t path;  /* one of `engine_path` */
} StoredModel;

typedef struct {
  int64_t texts;           /* N */
  const int32_t *tokens;   /* of all texts, end to end */
  const int64_t *offsets;  /* [N + 1], where each text begins */
  const int64_t *order;    /* [N], the texts in the order in which to begin them: longest first */
  int64_t *next;           /* how many of `order` are begun; shared by all threads */
  int32_t *stop;           /* not 0: return soon; shared by all threads */
  int64_t *done;           /* how many tokens are processed; shared by all threads */
  int64_t lanes;           /* the most texts processed at the same time */
  /* What is pooled, of the layers chosen: [N, layers chosen, H]; NULL: not wanted. */
  int64_t cell;            /* 1: cell states, 0: hidden states */
  int64_t squash;          /* 1: their tanh */
  const int64_t *chosen;   /* the layers */
  int64_t choices;         /* how many */
  float *last, *mean, *highest, *lowest;
  const int64_t *units;    /* of which all states are kept */
  int64_t unit_count;
  float *unit_states;      /* [all tokens, layers chosen, units]; NULL: not wanted */
  float *nats;             /* [all tokens], what predicting each one costs; NULL: not wanted */
  /* Whether a text costs more than so many bits a byte, and `allowed_bits` more: its tokens are
     decoded only until the excess [N] is further than `margin` from zero. Not with nats. */
  float *excess;           /* [N]; NULL: not wanted */
  const int32_t *token_bytes; /* [V], the bytes that a token stands for */
  double bits_per_byte, allowed_bits, margin;
  const float *first_h, *first_c; /* [N, L, H], the state before; NULL: zero */
  float *final_h, *final_c;       /* [N, L, H], the state after; NULL: not wanted */
  /* One unit may be held at a value after every token. */
  int64_t clamp_layer;     /* below 0: none */
  int64_t clamp_unit;
  float clamp_cell, clamp_hidden; /* NaN: free */
} Job;

#endif
