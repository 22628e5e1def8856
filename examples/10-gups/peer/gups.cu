// The same updates and inserts in NVSHMEM, on the GPUs of one host:  gups [NPES] [LOG_WORDS ..]
// One forked process for each GPU. PE 0 prints `shape,10^9 in a second` of all PEs: the median of 5 runs after a warm-up, of
// each the slowest PE's time. Updates are undone and looked at in the end; a wrong word makes the row nan.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {

constexpr int kMaxPes = 16, kRuns = 5, kThreads = 1024;
constexpr uint64_t kUpdates = uint64_t(1) << 26;

#define CHECK(call)                                                                            \
    do {                                                                                       \
        const int status_ = int(call);                                                         \
        if (status_ != 0) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status_);            \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

// Random numbers as in src/random.rs.
__host__ __device__ inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
__host__ __device__ inline uint64_t random_at(uint64_t i) { return mix((i + 1) * 0x9e3779b97f4a7c15ull); }
__device__ inline int place(uint64_t r, uint32_t n) { return int(((r >> 32) * n) >> 32); }

enum Op { XOR, ADD, SUB };

template <Op OP>
__global__ void __launch_bounds__(kThreads)
    update(uint64_t *table, uint64_t words, uint64_t first, uint64_t count, uint32_t n) {
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads) {
        const uint64_t r = random_at(first + i);
        uint64_t *word = table + (r & (words - 1));
        const int pe = place(r, n);
        if (OP == XOR) nvshmem_uint64_atomic_xor(word, r, pe);
        if (OP == ADD) nvshmem_uint64_atomic_add(word, r, pe);
        if (OP == SUB) nvshmem_uint64_atomic_add(word, 0 - r, pe);
    }
}

__global__ void __launch_bounds__(kThreads) count_others(const uint64_t *table, uint64_t words, unsigned *wrong) {
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    unsigned others = 0;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += threads)
        others += table[i] != 0;
    if (others != 0) atomicAdd(wrong, others);
}

// counts: new, old, lost.
__global__ void __launch_bounds__(kThreads)
    insert(uint64_t *table, uint64_t words, const uint64_t *keys, uint64_t count, unsigned long long *counts, uint32_t n) {
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    unsigned what[3] = {0, 0, 0};
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads) {
        const uint64_t key = keys[i], r = mix(key);
        const int pe = place(r, n);
        int found = 2;
        for (uint64_t probe = 0; key != 0 && probe < words; probe++) {
            const uint64_t before = nvshmem_uint64_atomic_compare_swap(table + ((r + probe) & (words - 1)), 0, key, pe);
            if (before == 0 || before == key) {
                found = before == 0 ? 0 : 1;
                break;
            }
        }
        what[0] += found == 0;
        what[1] += found == 1;
        what[2] += found == 2;
    }
    for (int k = 0; k < 3; k++) {
        const unsigned sum = __reduce_add_sync(~0u, what[k]);
        if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(counts + k, sum);
    }
}

struct Shared {
    pthread_barrier_t barrier;
    nvshmemx_uniqueid_t id;
    double value[kMaxPes];
    uint64_t counts[kMaxPes];
};

struct Bench {
    Shared *shared;
    int pe, npes, blocks;
    cudaEvent_t start, stop;

    double most(double mine) const {
        shared->value[pe] = mine;
        pthread_barrier_wait(&shared->barrier);
        const double most = *std::max_element(shared->value, shared->value + npes);
        pthread_barrier_wait(&shared->barrier);
        return most;
    }

    template <class F>
    double seconds(F launch) const {
        CHECK(cudaDeviceSynchronize());
        nvshmem_barrier_all();
        CHECK(cudaEventRecord(start));
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        return most(ms * 1e-3);
    }

    void row(const std::string &shape, uint64_t each, std::vector<double> times, bool right) const {
        if (pe != 0) return;
        times.erase(times.begin());  // the warm-up
        std::sort(times.begin(), times.end());
        const double rate = right ? double(each) * npes / times[times.size() / 2] * 1e-9 : NAN;
        printf("%s,%.3f\n", shape.c_str(), rate);
        fflush(stdout);
    }

    template <Op OP, Op UNDO>
    void updates(const char *name, int log) const {
        const uint64_t words = uint64_t(1) << log, first = uint64_t(pe) * kUpdates;
        uint64_t *table = static_cast<uint64_t *>(nvshmem_calloc(words, 8));
        unsigned *wrong;
        CHECK(table == nullptr);
        CHECK(cudaMalloc(&wrong, sizeof *wrong));
        CHECK(cudaMemset(wrong, 0, sizeof *wrong));
        std::vector<double> times;
        for (int run = 0; run <= kRuns; run++) {
            times.push_back(seconds([&] { update<OP><<<blocks, kThreads>>>(table, words, first, kUpdates, npes); }));
            update<UNDO><<<blocks, kThreads>>>(table, words, first, kUpdates, npes);
        }
        CHECK(cudaDeviceSynchronize());
        nvshmem_barrier_all();
        count_others<<<blocks, kThreads>>>(table, words, wrong);
        unsigned found = 1;
        CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
        row(std::string("update_") + name + "_2^" + std::to_string(log) + "_words", kUpdates, times, most(found) == 0);
        CHECK(cudaFree(wrong));
        nvshmem_free(table);
    }

    void inserts(int log) const {
        const uint64_t words = uint64_t(1) << log, count = words / 2, distinct = words * 4;
        uint64_t *table = static_cast<uint64_t *>(nvshmem_calloc(words, 8)), *keys;
        unsigned long long *counts, got[3];
        CHECK(table == nullptr);
        CHECK(cudaMalloc(&keys, count * 8));
        CHECK(cudaMalloc(&counts, sizeof got));
        std::vector<uint64_t> host(count);
        for (uint64_t i = 0; i < count; i++) host[i] = mix(1 + random_at(uint64_t(pe) << 32 | i) % distinct);
        CHECK(cudaMemcpy(keys, host.data(), count * 8, cudaMemcpyHostToDevice));
        std::vector<double> times;
        for (int run = 0; run <= kRuns; run++) {
            CHECK(cudaMemset(table, 0, words * 8));
            CHECK(cudaMemset(counts, 0, sizeof got));
            times.push_back(seconds([&] { insert<<<blocks, kThreads>>>(table, words, keys, count, counts, npes); }));
            nvshmem_barrier_all();
        }
        CHECK(cudaMemcpy(got, counts, sizeof got, cudaMemcpyDeviceToHost));
        // As many keys are new as words are taken.
        std::vector<uint64_t> all(words);
        CHECK(cudaMemcpy(all.data(), table, words * 8, cudaMemcpyDeviceToHost));
        const uint64_t taken = words - uint64_t(std::count(all.begin(), all.end(), 0));
        shared->counts[pe] = taken - got[0];  // wraps; the sum over all PEs does not
        const bool lost = most(double(got[2])) != 0;
        uint64_t difference = 0;
        for (int p = 0; p < npes; p++) difference += shared->counts[p];
        row("insert_2^" + std::to_string(log) + "_words", count, times, !lost && difference == 0);
        CHECK(cudaFree(keys));
        CHECK(cudaFree(counts));
        nvshmem_free(table);
    }
};

int run_rank(Shared *shared, int pe, int npes, const std::vector<int> &logs) {
    CHECK(cudaSetDevice(pe));
    CHECK(cudaFree(nullptr));
    if (pe == 0) CHECK(nvshmemx_get_uniqueid(&shared->id));
    pthread_barrier_wait(&shared->barrier);
    nvshmemx_uniqueid_t id = shared->id;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    CHECK(nvshmemx_set_attr_uniqueid_args(pe, npes, &id, &attr));
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr));
    Bench bench{shared, pe, npes, 0, nullptr, nullptr};
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, pe));
    int fit = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, update<XOR>, kThreads, 0));
    bench.blocks = std::max(fit, 1) * device.multiProcessorCount;
    CHECK(cudaEventCreate(&bench.start));
    CHECK(cudaEventCreate(&bench.stop));
    if (pe == 0) fprintf(stderr, "# NVSHMEM %d, %d PEs, %d blocks of %d\n", NVSHMEM_VENDOR_VERSION, npes, bench.blocks, kThreads);
    for (int log : logs) {
        bench.updates<XOR, XOR>("xor", log);
        bench.updates<ADD, SUB>("add", log);
        bench.inserts(log);
    }
    nvshmem_finalize();
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    const int npes = argc > 1 ? atoi(argv[1]) : 2;
    std::vector<int> logs;
    for (int i = 2; i < argc; i++) logs.push_back(atoi(argv[i]));
    if (logs.empty()) logs = {20, 24, 27};
    if (npes < 1 || npes > kMaxPes || std::any_of(logs.begin(), logs.end(), [](int l) { return l < 1 || l > 32; })) {
        fprintf(stderr, "usage: gups [NPES] [LOG_WORDS ..]\n");
        return 2;
    }
    // Never NVLink multicast, which can put a shared host's GPUs out of service.
    setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
    setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
    setenv("NVSHMEM_SYMMETRIC_SIZE", "4G", 0);
    void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory == MAP_FAILED);
    Shared *shared = new (memory) Shared();
    shared->id = NVSHMEMX_UNIQUEID_INITIALIZER;
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, npes);
    std::vector<pid_t> children;
    for (int pe = 0; pe < npes; pe++) {
        const pid_t pid = fork();
        CHECK(pid < 0);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(300);
            return run_rank(shared, pe, npes, logs);
        }
        children.push_back(pid);
    }
    // Once one fails, the others would wait for it for ever.
    int result = 0;
    for (size_t left = children.size(); left > 0; left--) {
        int status = 0;
        wait(&status);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        result = 1;
        for (pid_t child : children) kill(child, SIGKILL);
    }
    return result;
}
