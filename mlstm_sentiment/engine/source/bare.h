/* What the engine takes from C's library, for WebAssembly, which has none. */

#ifndef MLSTM_BARE_H
#define MLSTM_BARE_H

#define sqrt __builtin_sqrt
#define memcpy __builtin_memcpy /* a single instruction: -mbulk-memory */
#define memset __builtin_memset

extern unsigned char __heap_base;
static size_t heap_top; /* the end of what is taken */

#define PAGE 65536

/* Return zeros, at a multiple of 16; NULL if there is no memory. */
static void *calloc(size_t count, size_t size) {
  if (!heap_top) heap_top = ((size_t)&__heap_base + 15) / 16 * 16;
  size_t bytes = (count * size + 15) / 16 * 16 + 16, end = heap_top + bytes;
  size_t have = (size_t)__builtin_wasm_memory_size(0) * PAGE;
  if (end < bytes) return NULL;
  if (end > have && __builtin_wasm_memory_grow(0, (end - have + PAGE - 1) / PAGE) == (size_t)-1)
    return NULL;
  char *block = (char *)heap_top + 16;
  memcpy(block - 16, &heap_top, sizeof heap_top);
  memset(block, 0, bytes - 16);
  heap_top = end;
  return block;
}

/* Give back a block, and all that was taken after it: the engine frees the last one first. */
static void free(void *block) {
  if (block) memcpy(&heap_top, (char *)block - 16, sizeof heap_top);
}

/* Memory for what the page passes, and its end. */
Handle EXPORT(engine_take)(size_t bytes) { return calloc(bytes, 1); }

void EXPORT(engine_give_back)(void *block) { free(block); }

#endif
