// The same iteration in CUDA and NVSHMEM, in the form that examples for beginners have: a thread for each number, boundary rows put number by
// number, a barrier of all PEs on the stream behind each iteration. Rows: shape,us.
//   ./build.sh && ./jacobi_nvshmem [PES] [SIZE]
#include <nvshmem.h>
#include <nvshmemx.h>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#define CHECK(call)                                                         \
    do {                                                                    \
        const int status = static_cast<int>(call);                          \
        if (status != 0) {                                                  \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status); \
            std::_Exit(1);                                                  \
        }                                                                   \
    } while (0)

__global__ void step(const float *u, float *v, int nx, int rows, int above, int rows_above, int below) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= nx || y > rows) return;
    const size_t at = static_cast<size_t>(y) * nx + x;
    const bool given = x == 0 || x == nx - 1;
    const float mean = given ? u[at] : 0.25f * (u[at - 1] + u[at + 1] + u[at - nx] + u[at + nx]);
    v[at] = mean;
    if (y == 1) nvshmem_float_p(v + static_cast<size_t>(rows_above + 1) * nx + x, mean, above);
    if (y == rows) nvshmem_float_p(v + x, mean, below);
}

struct Shared {  // made before the fork
    pthread_barrier_t barrier;
    nvshmemx_uniqueid_t id;
    double us[16];
};

static int run(Shared *shared, int me, int n, int size) {
    CHECK(cudaSetDevice(me));
    if (me == 0) CHECK(nvshmemx_get_uniqueid(&shared->id));
    pthread_barrier_wait(&shared->barrier);
    nvshmemx_uniqueid_t id = shared->id;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    CHECK(nvshmemx_set_attr_uniqueid_args(me, n, &id, &attr));
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr));
    const auto rows_of = [&](int pe) { return size / n + (pe < size % n); };
    const int rows = rows_of(me), above = (me + n - 1) % n, below = (me + 1) % n;
    const size_t bytes = static_cast<size_t>(rows_of(0) + 2) * size * sizeof(float);
    float *u = static_cast<float *>(nvshmem_malloc(bytes)), *v = static_cast<float *>(nvshmem_malloc(bytes));
    CHECK(u == nullptr || v == nullptr);
    CHECK(cudaMemset(u, 0, bytes));
    CHECK(cudaMemset(v, 0, bytes));
    const dim3 block(128, 4), grid((size + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    constexpr int kSteps = 100, kRepetitions = 7;
    double times[kRepetitions];
    // The first two are warm-ups.
    for (int repetition = -2; repetition < kRepetitions; ++repetition) {
        nvshmem_barrier_all();
        CHECK(cudaEventRecord(begin, stream));
        for (int i = 0; i < kSteps; ++i) {
            step<<<grid, block, 0, stream>>>(u, v, size, rows, above, rows_of(above), below);
            CHECK(cudaGetLastError());
            nvshmemx_barrier_all_on_stream(stream);
            std::swap(u, v);
        }
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        shared->us[me] = ms * 1e3 / kSteps;
        pthread_barrier_wait(&shared->barrier);
        if (repetition >= 0) times[repetition] = *std::max_element(shared->us, shared->us + n);
        pthread_barrier_wait(&shared->barrier);
    }
    std::sort(times, times + kRepetitions);
    if (me == 0) std::printf("shape,us\n%dx%d on %d,%.1f\n", size, size, n, times[kRepetitions / 2]);
    nvshmem_free(u);
    nvshmem_free(v);
    nvshmem_finalize();
    return 0;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 2, size = argc > 2 ? std::atoi(argv[2]) : 16384;
    if (n < 1 || n > 16 || size < n) return std::fprintf(stderr, "usage: %s [PES] [SIZE]\n", argv[0]), 2;
    setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
    setenv("NVSHMEM_SYMMETRIC_SIZE", "4G", 0);
    void *map = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(map == MAP_FAILED);
    Shared *shared = new (map) Shared();
    shared->id = NVSHMEMX_UNIQUEID_INITIALIZER;
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attr, n);
    for (int pe = 0; pe < n; ++pe) {
        const pid_t pid = fork();
        CHECK(pid < 0);
        if (pid == 0) {
            alarm(300);  // a PE that fails leaves the others waiting
            const int status = run(shared, pe, n, size);
            std::fflush(nullptr);
            std::_Exit(status);
        }
    }
    int failed = 0, status = 0;
    while (wait(&status) > 0) failed |= status != 0;
    return failed;
}
