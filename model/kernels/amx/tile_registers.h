// The eight tile registers of a core, Intel's AMX, or their emulation.
//
// A tile has 16 rows of 64 bytes. As the left factor of a product it holds 16 rows of 32 bf16; as
// the right factor 16 columns of 32, row p of the tile with elements 2p and 2p + 1 of each column
// side by side; as a sum 16 x 16 fp32.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.
#pragma once

#include <cstdint>
#include <cstring>

#include "vectors.h"

#ifdef MLSTM_EMULATED_TILES

// In plain C++: the same layouts and the same rounding, on any processor. (A sum differs only
// where the product of two bf16 leaves the range of fp32: the processor's is fused.)
class TileRegisters {
 public:
  template <int kTo>
  void zero() {
    std::memset(tiles_[kTo], 0, sizeof tiles_[kTo]);
  }
  template <int kTo>
  void load(const void* from, int64_t stride) {
    for (int64_t row = 0; row < 16; ++row)
      std::memcpy(tiles_[kTo][row], static_cast<const char*>(from) + row * stride, 64);
  }
  template <int kFrom>
  void store(void* to, int64_t stride) const {
    for (int64_t row = 0; row < 16; ++row)
      std::memcpy(static_cast<char*>(to) + row * stride, tiles_[kFrom][row], 64);
  }
  // sum += a b: even and odd elements are summed separately, from zero, and added at the end.
  template <int kSum, int kA, int kB>
  void multiply_add() {
    for (int64_t row = 0; row < 16; ++row) {
      Floats even = {}, odd = {};
      for (int64_t pair = 0; pair < 16; ++pair) {
        const Ints b = read(tiles_[kB][pair]);
        const Ints a = Ints{} + element(tiles_[kA][row], pair);
        even = flush(even + flush(Floats(a << 16)) * flush(Floats(b << 16)));
        odd = flush(odd + flush(Floats(a & kUpper)) * flush(Floats(b & kUpper)));
      }
      const Floats sum = flush(Floats(read(tiles_[kSum][row]))) + flush(even + odd);
      const Floats flushed = flush(sum);
      std::memcpy(tiles_[kSum][row], &flushed, 64);
    }
  }

 private:
  static constexpr int32_t kUpper = ~0xffff;
  alignas(64) char tiles_[8][16][64];

  static Ints read(const char* row) {
    Ints value;
    std::memcpy(&value, row, 64);
    return value;
  }
  static int32_t element(const char* row, int64_t index) {
    int32_t value;
    std::memcpy(&value, row + index * 4, 4);
    return value;
  }
  // Subnormal numbers count as zero.
  static Floats flush(Floats x) {
    const Ints bits = Ints(x);
    return Floats(bits & (((bits & 0x7f800000) != 0) | INT32_MIN));
  }
};

#else

// Assembly rather than intrinsics: in some compilers, those accept only literal tile numbers, do
// not declare that they read memory, and declare only 8 of the 64 bytes that ldtilecfg reads.
class TileRegisters {
 public:
  TileRegisters() {
    Shapes shapes;
    for (int tile = 0; tile < 8; ++tile) shapes.row_bytes[tile] = 64, shapes.rows[tile] = 16;
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~TileRegisters() { asm volatile("tilerelease"); }  // else each context switch saves 8 KB
  TileRegisters(const TileRegisters&) = delete;

  template <int kTo>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTo));
  }
  template <int kTo>
  void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTo) : "memory");
  }
  template <int kFrom>
  void store(void* to, int64_t stride) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kFrom) : "memory");
  }
  template <int kSum, int kA, int kB>
  void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }

 private:
  struct alignas(64) Shapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
};

#endif
