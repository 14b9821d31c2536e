// What CUDA C needs to compile as C++ for one CPU thread; runtime.cpp runs it, a fibre for each CUDA thread.
#pragma once
#include <cmath>
#include <cstddef>
#include <utility>

struct uint3 { unsigned x, y, z; };
extern uint3 threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block runs at a time, so shared memory is static; in a section of its own it can be poisoned.
#define __shared__ static __attribute__((section("cuda_shared")))
#define __syncthreads() shim::meet(__LINE__, false)
#define __syncwarp(...) shim::meet(__LINE__, true)

long long host_now_ns();  // goes on by 100 ns a call

namespace shim {
extern char* dynamic;  // `extern __shared__ T name[];` becomes a pointer to it
void meet(int line, bool warp);

// The kernel's signature, as sizes and as a call from an array of pointers to its arguments.
template <class... A> int sizes(void (*)(A...), size_t* out)
{
    size_t all[] = {sizeof(A)..., 0};
    for (size_t i = 0; i < sizeof...(A); i++) out[i] = all[i];
    return sizeof...(A);
}
template <class... A, size_t... I> void call(void (*kernel)(A...), char** at, std::index_sequence<I...>)
{
    kernel(*reinterpret_cast<A*>(at[I])...);
}
template <class... A> void call(void (*kernel)(A...), char** at)
{
    call(kernel, at, std::index_sequence_for<A...>());
}
}  // namespace shim

int shim_sizes(size_t* out);
void shim_call(char** at);
#define SHIM_KERNEL(name) \
    int shim_sizes(size_t* out) { return shim::sizes(name, out); } \
    void shim_call(char** at) { shim::call(name, at); }

// Atomics: a fibre is never interrupted between two barriers.
template <class T, class U> T atomicAdd(T* at, U value) { T old = *at; *at = old + value; return old; }
template <class T, class U> T atomicMax(T* at, U value) { T old = *at; if (old < (T)value) *at = value; return old; }
template <class T, class U> T atomicMin(T* at, U value) { T old = *at; if ((T)value < old) *at = value; return old; }
template <class T, class U> T atomicExch(T* at, U value) { T old = *at; *at = value; return old; }
template <class T> T atomicCAS(T* at, T is, T then) { T old = *at; if (old == is) *at = then; return old; }
