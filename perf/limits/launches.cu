// What launches take: plain, cooperative, and as programmatic dependent launches, on a stream and from a graph.
//
//     nvcc -O3 -arch=sm_90 launches.cu -o launches && ./launches
//
// Each row is a kernel of so many blocks and threads that runs for so many cycles, launched 1000 times on a stream, and 100 times from a
// graph; the best of five. us of one launch: on the stream, of the host alone, from the graph.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                     \
    do {                                                                                                                \
        cudaError_t error_ = (call);                                                                                    \
        if (error_ != cudaSuccess) {                                                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                                             \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

__global__ void spin(long long cycles, bool follows) {
    if (follows) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

struct Way {
    const char *name;
    bool cooperative, programmatic;
};

static void launch(cudaStream_t stream, int blocks, int threads, long long cycles, const Way &way) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = way.cooperative ? cudaLaunchAttributeCooperative : cudaLaunchAttributeIgnore;
    attributes[0].val.cooperative = 1;
    attributes[1].id = way.programmatic ? cudaLaunchAttributeProgrammaticStreamSerialization : cudaLaunchAttributeIgnore;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    CHECK(cudaLaunchKernelEx(&config, spin, cycles, way.programmatic));
}

int main() {
    const int often = 1000, recorded = 100, repetitions = 5;
    const Way ways[] = {{"plain", false, false}, {"cooperative", true, false}, {"programmatic", false, true}, {"both", true, true}};
    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    printf("blocks,threads,cycles,way,stream,host,graph\n");
    for (auto [blocks, threads] : {std::pair{1, 32}, {1, 1024}, {16, 352}, {132, 512}}) {
        for (long long cycles : {0, 2000, 5000}) {
            for (const Way &way : ways) {
                cudaGraph_t graph;
                cudaGraphExec_t executable;
                CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
                for (int i = 0; i < recorded; i++) launch(stream, blocks, threads, cycles, way);
                CHECK(cudaStreamEndCapture(stream, &graph));
                CHECK(cudaGraphInstantiate(&executable, graph, 0));
                float on_stream = 1e9, in_graph = 1e9;
                double host = 1e9;
                for (int r = 0; r < repetitions; r++) {
                    float ms;
                    CHECK(cudaEventRecord(start, stream));
                    auto begun = std::chrono::steady_clock::now();
                    for (int i = 0; i < often; i++) launch(stream, blocks, threads, cycles, way);
                    host = std::min(host, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count());
                    CHECK(cudaEventRecord(end, stream));
                    CHECK(cudaStreamSynchronize(stream));
                    CHECK(cudaEventElapsedTime(&ms, start, end));
                    on_stream = std::min(on_stream, ms);
                    CHECK(cudaEventRecord(start, stream));
                    CHECK(cudaGraphLaunch(executable, stream));
                    CHECK(cudaEventRecord(end, stream));
                    CHECK(cudaStreamSynchronize(stream));
                    CHECK(cudaEventElapsedTime(&ms, start, end));
                    in_graph = std::min(in_graph, ms);
                }
                printf("%d,%d,%lld,%s,%.2f,%.2f,%.2f\n", blocks, threads, cycles, way.name, on_stream * 1e3 / often, host / often,
                       in_graph * 1e3 / recorded);
                CHECK(cudaGraphExecDestroy(executable));
                CHECK(cudaGraphDestroy(graph));
            }
        }
    }
}
