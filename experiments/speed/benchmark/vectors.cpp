// What AVX-512 can do at most: a product of a given shape, repeated, from the cache that its factors
// fit into, and nothing else. Both factors are words of 32 bits: an fp32, or two bf16 of a pair of
// rows, which an instruction multiplies and adds. The Python side mirrors the struct.
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

constexpr int64_t kRows = 12;     // of the left factor at a time: 24 registers of sums,
constexpr int64_t kColumns = 32;  // two of the right factor, one of the left

struct Repeated {
  int64_t threads, rows, depth, panels, times;
  int64_t deep;  // words of a panel at a time; 0: registers alone
  int64_t pairs;  // of bf16
  const float* left;   // [rows / kRows, depth, kRows]
  const float* right;  // [panels, depth, kColumns]
};

template <bool kPairs>
inline __m512 multiply_add(__m512 a, __m512 b, __m512 sum) {
  if constexpr (kPairs)
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  else
    return _mm512_fmadd_ps(a, b, sum);
}

// sums [kRows, kColumns] += left [depth, kRows]^T right [depth, kColumns]
template <bool kPairs, bool kLoads>
void multiply(const float* left, const float* right, int64_t depth, float* sums) {
  __m512 sum[kRows][2];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    for (int half = 0; half < 2; ++half)
      sum[row][half] = _mm512_load_ps(sums + row * kColumns + half * 16);
  __m512 b0 = _mm512_load_ps(right), b1 = _mm512_load_ps(right + 16), a = _mm512_set1_ps(*left);
  for (int64_t k = 0; k < depth; ++k) {
    if constexpr (kLoads) {
      b0 = _mm512_load_ps(right + k * kColumns);
      b1 = _mm512_load_ps(right + k * kColumns + 16);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      if constexpr (kLoads) a = _mm512_set1_ps(left[k * kRows + row]);
      sum[row][0] = multiply_add<kPairs>(a, b0, sum[row][0]);
      sum[row][1] = multiply_add<kPairs>(a, b1, sum[row][1]);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
    for (int half = 0; half < 2; ++half)
      _mm512_store_ps(sums + row * kColumns + half * 16, sum[row][half]);
}

template <bool kPairs>
void repeat(const Repeated& r, int64_t begin, int64_t end) {
  const int64_t groups = r.rows / kRows, block = kRows * kColumns;
  float* sums = static_cast<float*>(_mm_malloc(groups * block * sizeof(float), 64));
  std::fill(sums, sums + groups * block, 0.f);
  if (r.deep == 0)
    multiply<kPairs, false>(r.left, r.right, r.times * (end - begin) * groups * r.depth, sums);
  else
    for (int64_t time = 0; time < r.times; ++time)
      for (int64_t panel = begin; panel < end; ++panel)
        for (int64_t k = 0; k < r.depth; k += r.deep)
          for (int64_t group = 0; group < groups; ++group)
            multiply<kPairs, true>(r.left + (group * r.depth + k) * kRows,
                                   r.right + (panel * r.depth + k) * kColumns,
                                   std::min(r.deep, r.depth - k), sums + group * block);
  asm volatile("" ::"r"(sums) : "memory");  // so that the compiler takes the sums for read
  _mm_free(sums);
}

}  // namespace

extern "C" void repeat_on_vectors(const Repeated* r) {
#pragma omp parallel for num_threads(r->threads)
  for (int64_t thread = 0; thread < r->threads; ++thread) {
    const int64_t begin = thread * r->panels / r->threads;
    const int64_t end = (thread + 1) * r->panels / r->threads;
    (r->pairs ? repeat<true> : repeat<false>)(*r, begin, end);
  }
}
