// Runs one launch, read from standard input, and writes the arrays as they are afterwards to standard output.
//
// In: numbers of 8 bytes: arguments, blocks, threads, dynamic bytes, order (0 forward, 1 reversed, 2 and more
// a shuffle), 1 for arrays at the start of their page instead of its end; then for each argument its kind
// (0 scalar, 1 array to read, 2 array to write), its bytes, and these bytes. Names of the arguments: argv.
// What is wrong goes to standard error in one line; exit status 3.
#include "cuda.hpp"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

uint3 threadIdx{}, blockIdx{}, blockDim{1, 1, 1}, gridDim{1, 1, 1};
extern char __start_cuda_shared[] __attribute__((weak)), __stop_cuda_shared[] __attribute__((weak));

namespace shim {
char* dynamic;
enum State { READY, BARRIER, WARP, DONE };
struct Fibre { ucontext_t context; State state; int line; };
struct Piece { const char* name; char *map, *data; size_t map_bytes, bytes; long long kind; };

const size_t PAGE = 4096, STACK = 64 * 1024;
const unsigned SECONDS = 10;
std::vector<Fibre> fibres;
std::vector<Piece> pieces;
std::vector<char*> arguments;
ucontext_t scheduler;
char* stacks;
long long order, clock_ns;
unsigned long long random_state;

void stop(const char* format, ...)
{
    char text[400];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    if (write(2, text, length) != length) _exit(4);
    _exit(3);
}

// A stretch of memory between two pages that nobody may touch.
Piece guarded(const char* name, size_t bytes, long long kind, bool at_start)
{
    size_t inner = (bytes + PAGE - 1) / PAGE * PAGE, all = inner + 2 * PAGE;
    char* map = (char*)mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + PAGE, inner, PROT_READ | PROT_WRITE)) stop("memory: no room for %s", name);
    return {name, map, map + PAGE + (at_start ? 0 : inner - bytes), all, bytes, kind};
}

void died(int signal, siginfo_t* info, void*)
{
    if (signal == SIGALRM) stop("endless: block %u, thread %u still runs after %u s", blockIdx.x, threadIdx.x, SECONDS);
    char* at = (char*)info->si_addr;
    for (const Piece& p : pieces) {
        if (at < p.map || at >= p.map + p.map_bytes) continue;
        if (at >= p.data && at < p.data + p.bytes) stop("read-only: block %u, thread %u writes %s", blockIdx.x, threadIdx.x, p.name);
        long long past = at < p.data ? at - p.data : at - (p.data + p.bytes);
        stop("bounds: block %u, thread %u touches %s, %lld bytes %s", blockIdx.x, threadIdx.x, p.name,
             past < 0 ? -past : past, past < 0 ? "before its start" : "behind its end");
    }
    stop("bounds: block %u, thread %u touches memory far from every array", blockIdx.x, threadIdx.x);
}

std::vector<size_t> sequence(size_t count)
{
    std::vector<size_t> all(count);
    for (size_t i = 0; i < count; i++) all[i] = order == 1 ? count - 1 - i : i;
    for (size_t i = count; order >= 2 && i > 1; i--) {  // Fisher and Yates, with Marsaglia's xorshift
        random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
        std::swap(all[i - 1], all[random_state % i]);
    }
    return all;
}

void body() { shim_call(arguments.data()); fibres[threadIdx.x].state = DONE; }

void meet(int line, bool warp)
{
    Fibre& fibre = fibres[threadIdx.x];
    fibre.state = warp ? WARP : BARRIER, fibre.line = line;
    swapcontext(&fibre.context, &scheduler);
}

// Lets fibres [from, to) go on if all of them wait for `state` in the same line.
bool release(size_t from, size_t to, State state)
{
    for (size_t i = from; i < to; i++)
        if (fibres[i].state != state || fibres[i].line != fibres[from].line) return false;
    for (size_t i = from; i < to; i++) fibres[i].state = READY;
    return true;
}

void run_block()
{
    size_t count = fibres.size();
    memset(__start_cuda_shared, 0xFF, __stop_cuda_shared - __start_cuda_shared);
    memset(dynamic, 0xFF, pieces.back().bytes);  // NaN as float, -1 as integer
    for (size_t i = 0; i < count; i++) {
        getcontext(&fibres[i].context);
        fibres[i].context.uc_stack.ss_sp = stacks + i * STACK;
        fibres[i].context.uc_stack.ss_size = STACK;
        fibres[i].context.uc_link = &scheduler;
        fibres[i].state = READY;
        makecontext(&fibres[i].context, body, 0);
    }
    for (bool moved = true; moved;) {
        for (size_t i : sequence(count)) {
            if (fibres[i].state != READY) continue;
            threadIdx.x = i;
            swapcontext(&scheduler, &fibres[i].context);
        }
        moved = release(0, count, BARRIER);
        for (size_t i = 0; i < count; i += 32) moved |= release(i, i + 32 < count ? i + 32 : count, WARP);
    }
    size_t done = 0, waiting = 0;
    for (const Fibre& f : fibres) done += f.state == DONE, waiting = f.state == DONE ? waiting : f.line;
    if (done < count)
        stop("barrier: block %u, %zu of %zu threads wait in line %zu, the others returned or wait elsewhere", blockIdx.x,
             count - done, count, waiting);
}

long long number()
{
    long long value;
    if (fread(&value, sizeof value, 1, stdin) != 1) stop("job: cut short");
    return value;
}
}  // namespace shim

long long host_now_ns() { return shim::clock_ns += 100; }

int main(int, char** names)
{
    using namespace shim;
    long long count = number(), blocks = number(), threads = number(), dynamic_bytes = number();
    order = number(), random_state = 0x9E3779B97F4A7C15ull + order;
    bool at_start = number();
    size_t sizes[64];
    if (shim_sizes(sizes) != count) stop("arguments: %lld given, the kernel takes %d", count, shim_sizes(sizes));
    for (long long i = 0; i < count; i++) {
        long long kind = number();
        size_t bytes = number();
        if ((kind ? sizeof(char*) : bytes) != sizes[i]) stop("arguments: %s has another size than in the source", names[i + 1]);
        pieces.push_back(guarded(names[i + 1], bytes, kind, kind && at_start));
        if (fread(pieces[i].data, 1, bytes, stdin) != bytes) stop("job: cut short");
        if (kind == 1) mprotect(pieces[i].map + PAGE, pieces[i].map_bytes - 2 * PAGE, PROT_READ);
    }
    for (Piece& p : pieces) arguments.push_back(p.kind ? (char*)&p.data : p.data);
    pieces.push_back(guarded("the dynamic shared memory", dynamic_bytes, 0, false));
    dynamic = pieces.back().data;
    fibres.resize(threads);
    stacks = (char*)mmap(nullptr, threads * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char spare[64 * 1024];
    stack_t own{spare, 0, sizeof spare};
    struct sigaction action {};
    action.sa_sigaction = died, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (stacks == MAP_FAILED || sigaltstack(&own, nullptr)) stop("memory: no room for the threads");
    for (int signal : {SIGSEGV, SIGBUS, SIGALRM}) sigaction(signal, &action, nullptr);
    alarm(SECONDS);

    blockDim.x = threads, gridDim.x = blocks;
    for (size_t block : sequence(blocks)) {
        blockIdx.x = block;
        run_block();
    }
    for (const Piece& p : pieces)
        if (p.kind) fwrite(p.data, 1, p.bytes, stdout);
    return fflush(stdout) ? 4 : 0;
}
