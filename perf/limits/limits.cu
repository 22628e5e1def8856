// What the machine gives to loops that do nothing but move data: no checks, no library, addresses that only grow. Two devices in one process, or
// two halves of one. What `shmem-perf` reaches of these figures is what a call costs.
//
//   nvcc -O3 -arch=sm_90 -o limits limits.cu && ./limits        rows: bench,variant,bytes,value,unit
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call) \
    do { \
        cudaError_t e = (call); \
        if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); exit(1); } \
    } while (0)

__device__ uint4 load(const uint4 *p) {
    uint4 v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}
__device__ void store(uint4 *p, uint4 v) {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
template <typename T> __device__ T wait_for(const volatile T *p, T v) {
    long long begin = clock64();
    T seen;
    while ((seen = *p) < v && clock64() - begin < 4000000000ll) {}
    return seen;
}

// Each block copies its part of `lines`, again and again, through `windows` copies of what is on the other side. LINES of 16 bytes of a thread are
// under way together. BLOCKS: the block meets after each part.
template <bool GET, bool BLOCKS, int LINES>
__global__ void __launch_bounds__(1024) move(uint4 *there, uint4 *here, int lines, int windows, int iters) {
    const int part = lines / gridDim.x;
    uint4 *far = there + blockIdx.x * part, *near = here + blockIdx.x * part;
    int window = 0;
    for (int i = 0; i < iters; i++) {
        const uint4 *from = GET ? far + (size_t)window * lines : near;
        uint4 *to = GET ? near + (size_t)window * lines : far + (size_t)window * lines;
        for (int at = threadIdx.x; at < part; at += LINES * blockDim.x) {
            uint4 v[LINES];
#pragma unroll
            for (int j = 0; j < LINES; j++)
                if (at + j * (int)blockDim.x < part) v[j] = GET ? load(from + at + j * blockDim.x) : from[at + j * blockDim.x];
#pragma unroll
            for (int j = 0; j < LINES; j++)
                if (at + j * (int)blockDim.x < part) store(to + at + j * blockDim.x, v[j]);
        }
        if (BLOCKS) __syncthreads();
        if (++window == windows) window = 0;
    }
}

// Half a round trip: a block puts so many lines, fences and tells.
__global__ void __launch_bounds__(1024) put_tell(uint4 *there, const uint4 *here, int lines, unsigned long long *mine, unsigned long long *theirs, int first, int iters, int acquires) {
    for (int i = 1; i <= iters; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (turn == first) {
                for (int at = threadIdx.x; at < lines; at += 8 * blockDim.x) {
                    uint4 v[8];
#pragma unroll
                    for (int j = 0; j < 8; j++) if (at + j * (int)blockDim.x < lines) v[j] = here[at + j * blockDim.x];
#pragma unroll
                    for (int j = 0; j < 8; j++) if (at + j * (int)blockDim.x < lines) store(there + at + j * blockDim.x, v[j]);
                }
                __syncthreads();
                if (threadIdx.x == 0) asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(theirs), "l"((unsigned long long)i) : "memory");
            } else {
                if (threadIdx.x == 0) {
                    wait_for(mine, (unsigned long long)i);
                    if (acquires) asm volatile("fence.acquire.sys;" ::: "memory");
                }
                __syncthreads();
            }
        }
    }
}

// One packet of 8 bytes each way, at once: a flight.
__global__ void exchange(volatile unsigned long long *mine, volatile unsigned long long *theirs, int iters, int blocks) {
    for (int i = 1; i <= iters; i++) {
        if (blocks) __syncthreads();
        if (threadIdx.x == 0) {
            theirs[i & 1] = i;
            wait_for(mine + (i & 1), (unsigned long long)i);
        }
        if (blocks) __syncthreads();
    }
}

struct Side { int device; char *memory; cudaStream_t stream; cudaEvent_t begin, end; };
static Side side[2];
static const size_t ROOM = 512u << 20;

template <typename F> float us(F launch, int sides, int iters) {
    float best[5];
    for (float &t : best) {
        for (int s = 0; s < sides; s++) { CHECK(cudaSetDevice(side[s].device)); CHECK(cudaDeviceSynchronize()); CHECK(cudaMemset(side[s].memory + ROOM - 4096, 0, 4096)); }
        for (int s = 0; s < 2; s++) { CHECK(cudaSetDevice(side[s].device)); CHECK(cudaDeviceSynchronize()); }
        for (int s = 0; s < sides; s++) {
            CHECK(cudaSetDevice(side[s].device));
            CHECK(cudaEventRecord(side[s].begin, side[s].stream));
            launch(s);
            CHECK(cudaEventRecord(side[s].end, side[s].stream));
        }
        t = 0;
        for (int s = 0; s < sides; s++) { float ms; CHECK(cudaEventSynchronize(side[s].end)); CHECK(cudaEventElapsedTime(&ms, side[s].begin, side[s].end)); t = std::max(t, ms * 1e3f / iters); }
    }
    std::sort(best, best + 5);
    return best[2];
}

template <bool GET, bool BLOCKS> void moves(const char *name, int sides) {
    const int shapes[][2] = {{8, 1024}, {32, 256}, {16, 1024}, {32, 1024}, {64, 1024}, {132, 1024}};
    for (auto shape : shapes) for (size_t bytes : {4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 64u << 20}) {
        const int blocks = shape[0] <= 64 ? shape[0] : 128, iters = std::max<size_t>(20, std::min<size_t>(4000, (1ull << 30) / bytes));
        const int windows = std::max<size_t>(1, std::min<size_t>(64, (size_t)blocks * (512 << 10) / bytes));
        // A line for each thread is copied without the arithmetic for more.
        const auto kernel = bytes / 16 / blocks <= shape[1] ? move<GET, BLOCKS, 1> : move<GET, BLOCKS, 8>;
        float t = us([&](int s) { kernel<<<blocks, shape[1], 0, side[s].stream>>>((uint4 *)side[1 - s].memory, (uint4 *)(side[s].memory + ROOM / 2), bytes / 16, windows, iters); }, sides, iters);
        printf("%s,%s_g%d_t%d%s,%zu,%.4g,GB/s\n", GET ? "get" : "put", name, blocks, shape[1], sides == 2 ? "_bidir" : "", bytes, bytes / t / 1e3);
    }
}

int main() {
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    for (int s = 0; s < 2; s++) {
        side[s].device = devices > 1 ? s : 0;
        CHECK(cudaSetDevice(side[s].device));
        if (devices > 1) CHECK(cudaDeviceEnablePeerAccess(1 - s, 0));
        CHECK(cudaMalloc(&side[s].memory, ROOM));
        CHECK(cudaStreamCreateWithFlags(&side[s].stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&side[s].begin));
        CHECK(cudaEventCreate(&side[s].end));
    }
    fprintf(stderr, "%d devices\n", devices);
    moves<false, true>("block", 1);
    moves<true, true>("block", 1);
    moves<true, false>("nbi", 1);
    moves<true, true>("block", 2);
    auto word = [](int s, int i) { return (unsigned long long *)(side[s].memory + ROOM - 4096) + 16 * i; };
    const int iters = 2000;
    for (int acquires = 0; acquires < 2; acquires++) for (int bytes : {128, 512, 2048, 8192, 32768, 131072, 524288}) {
        float t = us([&](int s) { put_tell<<<1, 1024, 0, side[s].stream>>>((uint4 *)side[1 - s].memory, (uint4 *)(side[s].memory + ROOM / 2), bytes / 16, word(s, 0), word(1 - s, 0), s, iters, acquires); }, 2, iters);
        printf("put_signal_pingpong,block%s,%d,%.4g,us\n", acquires ? "" : "_relaxed", bytes, t / 2);
    }
    for (int blocks = 0; blocks < 2; blocks++) {
        float t = us([&](int s) { exchange<<<1, blocks ? 1024 : 1, 0, side[s].stream>>>(word(s, 4), word(1 - s, 4), iters, blocks); }, 2, iters);
        printf("exchange,%s,8,%.4g,us\n", blocks ? "block" : "thread", t);
    }
    return 0;
}
