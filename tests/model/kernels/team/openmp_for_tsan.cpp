// What ThreadSanitizer cannot see in torch's OpenMP, which was compiled without it: that the threads
// of a team begin after the call and end before it returns, and that a barrier orders them.
#include <dlfcn.h>

extern "C" {
void __tsan_acquire(void*);
void __tsan_release(void*);

struct Call {
  void (*work)(void*);
  void* data;
  char begun, ended;
};

static void run(void* pointer) {
  Call* call = static_cast<Call*>(pointer);
  __tsan_acquire(&call->begun);
  call->work(call->data);
  __tsan_release(&call->ended);
}

void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) {
  using Parallel = void(void (*)(void*), void*, unsigned, unsigned);
  static auto parallel = reinterpret_cast<Parallel*>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  Call call{work, data, 0, 0};
  __tsan_release(&call.begun);
  parallel(run, &call, threads, flags);
  __tsan_acquire(&call.ended);
}

void GOMP_barrier() {
  static auto barrier = reinterpret_cast<void (*)()>(dlsym(RTLD_NEXT, "GOMP_barrier"));
  static char all;
  __tsan_release(&all);
  barrier();
  __tsan_acquire(&all);
}
}
