// Arithmetic on a block of 32 units of one lane, in AVX-512 or in plain C++.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512BF16__)
#define MLSTM_AVX512
#include <immintrin.h>
#endif

using bf16 = uint16_t;  // the upper half of a float's bits

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Row __attribute__((vector_size(64)));  // 32 bf16: one row of a tile

#define INLINE inline __attribute__((always_inline))

// Which of a block's 32 elements exist, a bit each; the others are not written, and read as 0.
using Mask = uint32_t;
INLINE Mask first(int64_t count) { return count >= 32 ? ~0u : count > 0 ? (1u << count) - 1 : 0; }
constexpr Mask kAll = ~0u;

#ifdef MLSTM_AVX512

INLINE Floats splat(float value) { return Floats(_mm512_set1_ps(value)); }

INLINE Floats load16(const float* from, uint16_t mask) {
  return Floats(_mm512_maskz_loadu_ps(mask, from));
}
INLINE Floats load16(const bf16* from, uint16_t mask) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
  return Floats(_mm512_slli_epi32(wide, 16));
}
INLINE void store16(float* to, Floats value, uint16_t mask) {
  _mm512_mask_storeu_ps(to, mask, __m512(value));
}
INLINE Row load_row(const bf16* from, Mask mask = kAll) {
  return Row(_mm512_maskz_loadu_epi16(mask, from));
}
INLINE void store_row(bf16* to, Row row, Mask mask = kAll) {
  _mm512_mask_storeu_epi16(to, mask, __m512i(row));
}
// Bypasses the cache, for what is read only after the whole window; 64 bytes at a multiple of 64.
INLINE void stream_row(bf16* to, Row row) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), __m512i(row));
}
INLINE void stream16(float* to, Floats value) { _mm512_stream_ps(to, __m512(value)); }

INLINE Row narrow(Floats low, Floats high) {
  return Row(_mm512_cvtne2ps_pbh(__m512(high), __m512(low)));
}
INLINE Floats fused(Floats a, Floats b, Floats c) {
  return Floats(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
}
INLINE Floats magnitude(Floats x) { return Floats(_mm512_abs_ps(__m512(x))); }
// The smaller of x and limit; NaN where x is NaN.
INLINE Floats at_most(Floats x, float limit) {
  return Floats(_mm512_min_ps(_mm512_set1_ps(limit), __m512(x)));
}
INLINE Floats fraction(Floats x) { return Floats(_mm512_reduce_ps(__m512(x), 0x01)); }
INLINE Floats scale(Floats x, Floats exponent) {  // x times two to the floor of the exponent
  return Floats(_mm512_scalef_ps(__m512(x), __m512(exponent)));
}
// 1 / x for finite x: an estimate of 14 bits and one step of Newton's.
INLINE Floats inverse(Floats x) {
  const Floats estimate = Floats(_mm512_rcp14_ps(__m512(x)));
  return estimate * fused(-x, estimate, splat(2.f));
}

#else

INLINE Floats splat(float value) {
  Floats all;
  for (int i = 0; i < 16; ++i) all[i] = value;
  return all;
}
template <typename Vector, typename Element>
INLINE Vector load_some(const Element* from, Mask mask) {
  Vector value = {};
  std::memcpy(&value, from, __builtin_popcount(mask) * sizeof(Element));
  return value;
}
template <typename Vector, typename Element>
INLINE void store_some(Element* to, Vector value, Mask mask) {
  std::memcpy(to, &value, __builtin_popcount(mask) * sizeof(Element));
}
INLINE Floats load16(const float* from, uint16_t mask) { return load_some<Floats>(from, mask); }
INLINE Floats load16(const bf16* from, uint16_t mask) {
  Ints wide = {};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) wide[i] = int32_t(uint32_t(from[i]) << 16);
  return Floats(wide);
}
INLINE void store16(float* to, Floats value, uint16_t mask) { store_some(to, value, mask); }
INLINE Row load_row(const bf16* from, Mask mask = kAll) { return load_some<Row>(from, mask); }
INLINE void store_row(bf16* to, Row row, Mask mask = kAll) { store_some(to, row, mask); }
INLINE void stream_row(bf16* to, Row row) { store_row(to, row); }
INLINE void stream16(float* to, Floats value) { store16(to, value, 0xffff); }

// Rounds to nearest, ties to even; NaN stays NaN.
INLINE bf16 narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value != value) return bf16(bits >> 16 | 0x40);
  return bf16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
INLINE Row narrow(Floats low, Floats high) {
  Row row;
  for (int i = 0; i < 16; ++i) row[i] = narrow(low[i]), row[16 + i] = narrow(high[i]);
  return row;
}
INLINE Floats fused(Floats a, Floats b, Floats c) { return a * b + c; }
INLINE Floats magnitude(Floats x) { return Floats(Ints(x) & INT32_MAX); }
INLINE Floats at_most(Floats x, float limit) {
  for (int i = 0; i < 16; ++i) x[i] = x[i] > limit ? limit : x[i];
  return x;
}
INLINE Floats clamp(Floats x) {  // to exponents beyond those of fp32
  for (int i = 0; i < 16; ++i) x[i] = x[i] > 200.f ? 200.f : x[i] < -200.f ? -200.f : x[i];
  return x;
}
INLINE Floats fraction(Floats x) {
  x = clamp(x);
  for (int i = 0; i < 16; ++i) x[i] -= __builtin_floorf(x[i]);
  return x;
}
INLINE Floats scale(Floats x, Floats exponent) {
  exponent = clamp(exponent);
  for (int i = 0; i < 16; ++i) {
    const bool number = exponent[i] == exponent[i];
    const int32_t whole = number ? int32_t(__builtin_floorf(exponent[i])) : 0, half = whole / 2;
    for (const int32_t part : {half, whole - half}) {  // each within the range of fp32
      const uint32_t bits = uint32_t(part + 127) << 23;
      float power;
      std::memcpy(&power, &bits, 4);
      x[i] *= power;
    }
  }
  return x;
}
INLINE Floats inverse(Floats x) { return splat(1.f) / x; }

#endif

// 2^x, with infinity, zero and NaN where they belong: a polynomial of degree 5 over [0, 1), whose
// relative error is 7.5e-8.
INLINE Floats exp2_of(Floats x) {
  const Floats f = fraction(x);
  Floats power = splat(1.8775766e-3f);
  power = fused(power, f, splat(8.9893397e-3f));
  power = fused(power, f, splat(5.5826318e-2f));
  power = fused(power, f, splat(2.4015361e-1f));
  power = fused(power, f, splat(6.9315308e-1f));
  power = fused(power, f, splat(9.9999994e-1f));
  return scale(power, x);
}
INLINE Floats sigmoid(Floats x) {
  return inverse(at_most(exp2_of(x * splat(-1.44269504f)), 1e30f) + splat(1.f));
}
// From exp(-2|x|), which cannot overflow; absolute error 1e-7.
INLINE Floats tanh_of(Floats x) {
  const Floats e = exp2_of(magnitude(x) * splat(-2.88539008f));
  const Floats y = (splat(1.f) - e) * inverse(e + splat(1.f));
  return Floats(Ints(y) | (Ints(x) & INT32_MIN));
}

// A block of 32 units of one lane.
struct Units {
  Floats low, high;
};
INLINE Units operator+(Units a, Units b) { return {a.low + b.low, a.high + b.high}; }
INLINE Units operator*(Units a, Units b) { return {a.low * b.low, a.high * b.high}; }
INLINE Units fused(Units a, Units b, Units c) {
  return {fused(a.low, b.low, c.low), fused(a.high, b.high, c.high)};
}
INLINE Units one_minus(Units a) { return {splat(1.f) - a.low, splat(1.f) - a.high}; }
INLINE Units one_minus_square(Units a) {
  return {fused(-a.low, a.low, splat(1.f)), fused(-a.high, a.high, splat(1.f))};
}
INLINE Units sigmoid(Units x) { return {sigmoid(x.low), sigmoid(x.high)}; }
INLINE Units tanh_of(Units x) { return {tanh_of(x.low), tanh_of(x.high)}; }

template <typename Element>  // float or bf16
INLINE Units load(const Element* from, Mask mask = kAll) {
  return {load16(from, uint16_t(mask)), load16(from + 16, uint16_t(mask >> 16))};
}
INLINE void store(float* to, Units value, Mask mask = kAll) {
  store16(to, value.low, uint16_t(mask));
  store16(to + 16, value.high, uint16_t(mask >> 16));
}
INLINE void stream(float* to, Units value) {
  stream16(to, value.low);
  stream16(to + 16, value.high);
}
INLINE Row narrow(Units value) { return narrow(value.low, value.high); }
// A row of an array whose rows need not begin at a multiple of 64 bytes, or end there.
INLINE void stream_row(bf16* to, Row row, Mask mask) {
  if (mask == kAll && reinterpret_cast<uintptr_t>(to) % 64 == 0)
    stream_row(to, row);
  else
    store_row(to, row, mask);
}
