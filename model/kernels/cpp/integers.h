// Products of 8-bit integers, as integers.py defines them, on the instructions that processors have
// for them ("VNNI"): unsigned times signed. So 128 is added to the numbers of a row, and a sum is
// too large by 128 times the sum of the weights: its offset.
#pragma once

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>

#include "arithmetic.h"

namespace integers {

// Round `count` numbers to integers times a scale, which is returned; the largest becomes 127. If a
// number is not finite, neither is the scale, nor anything computed from the row.
inline float round(const float* from, int64_t count, uint8_t* to) {
  constexpr float kSmallest = 1e-30f;  // as in integers.py
  constexpr float kWhole = 12582912.f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const auto larger = [](Vec a, Vec b) { return at::vec::maximum(a, b); };  // lets a NaN through
  Vec largest(kSmallest);
  for (int64_t k = 0; k < count; k += Vec::size())
    largest = larger(largest, load(from + k, std::min<int64_t>(Vec::size(), count - k)).abs());
  const float most = at::vec::vec_reduce_all<float>(larger, largest);
  const float inverse = 127.f / most;
  for (int64_t k = 0; k < count; ++k)
    to[k] = static_cast<uint8_t>(std::bit_cast<uint32_t>(from[k] * inverse + kWhole) + 128);
  return most / 127.f;
}

// n sums without their offsets.
inline Vec widened(const int32_t* sums, const int32_t* offsets, int64_t n) {
  using Integers = at::vec::Vectorized<int32_t>;
  return at::vec::convert<float>(Integers::loadu(sums, n) - Integers::loadu(offsets, n));
}

#ifdef CPUBLAS_BRGEMM_U8I8I32
// Whether this machine has them. Older instructions saturate the sum of two products at 16 bits.
inline bool multiplies() {
  const uint8_t a[4] = {255, 255, 255, 255};
  const int8_t panel[8] = {127, 127, 127, 127, -127, -127, -127, 127};  // two columns, four rows
  int32_t sums[2] = {};
  try {
    at::native::cpublas::brgemm(1, 2, 4, 4, 2, 2, false, a, panel, sums, true);
    at::native::cpublas::brgemm_release(true);
  } catch (const std::exception&) {
    return false;
  }
  return sums[0] == 4 * 255 * 127 && sums[1] == -2 * 255 * 127;
}
#endif

}  // namespace integers
