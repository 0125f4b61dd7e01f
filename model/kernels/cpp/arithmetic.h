// Vectors of fp32, whatever memory holds: how they are read, written, and squashed.
#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

using Vec = at::vec::Vectorized<float>;

template <typename S>
inline Vec load(const S* from, int64_t count) {
  if (count < Vec::size()) {
    S whole[Vec::size()] = {};
    std::memcpy(whole, from, count * sizeof(S));
    return load(whole, Vec::size());
  }
  if constexpr (std::is_same_v<S, float>) {
    return Vec::loadu(from);
  } else {
    Vec value;
    at::vec::load_to_float<S>(from, value);
    return value;
  }
}

template <typename S>
inline void store(S* to, Vec value, int64_t count) {
  if constexpr (std::is_same_v<S, float>) {
    value.store(to, count);
  } else {
    at::vec::convert_from_float<S>(value, value).store(to, count);
  }
}

// A store that bypasses the cache, for what is read only after the whole window. (In 16 bits, with
// two stores to a line, it gained nothing.)
template <typename S>
inline void stream(S* to, Vec value, int64_t count) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<S, float>)
    if (count == 16 && reinterpret_cast<uintptr_t>(to) % 64 == 0)
      return _mm512_stream_ps(to, value);
#endif
  store(to, value, count);
}

// The exact exp, which unlike the fast one lets a NaN through.
inline Vec sigmoid(Vec x) { return Vec(1.f) / (Vec(1.f) + x.neg().exp()); }

// From exp(-2|x|), which cannot overflow; absolute error 1e-7.
inline Vec tanh_of(Vec x) {
  const Vec e = (x.abs() * Vec(-2.f)).exp();
  return ((Vec(1.f) - e) / (Vec(1.f) + e)) | (x & Vec(-0.f));
}

}  // namespace
