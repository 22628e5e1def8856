#!/usr/bin/env bash
# Measures this library and its peers on the GPUs of one host, in one run, and prints the ratios.
#
#   perf/compare.sh BUNDLE PEER [OUT]
#
# BUNDLE: what `cargo xtask bundle shmem-perf` made; needs no cargo. PEER: the folder of nvshmem_bench.cu, build.sh and
# torch_baseline.py. OUT: a folder for the results, default perf-results; its perf-NPESxgpu.csv has each row of a peer with
# ours beside it, and plots/ shows them against size.
#
#   NPES=2                 PEs, one for each GPU
#   PERF_BENCHMARK=all     what of ours is measured, with its options
#   PEER_ARGUMENTS=        options of nvshmem_bench: --quick, --only put_bw,get_bw
#   NVSHMEM_BENCH=         a nvshmem_bench that is built already
#   SKIP_TORCH=1           leaves torch_baseline.py out
#   CUDA_HOME, NVSHMEM_HOME, ARCH: as build.sh has them
set -euo pipefail

usage() {
    sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//' >&2
    exit 2
}
[ $# -ge 2 ] && [ $# -le 3 ] || usage
bundle=$(realpath "$1")
peer=$(realpath "$2")
mkdir -p "${3:-perf-results}"
out=$(realpath "${3:-perf-results}")
npes=${NPES:-2}
perf=$bundle/bin/shmem-perf
for file in "$perf" "$bundle/bin/shmem-run" "$peer/nvshmem_bench.cu"; do
    [ -e "$file" ] || { echo "compare.sh: there is no $file" >&2; exit 2; }
done

# Never NVLink multicast, which can put a shared host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1 TORCH_SYMM_MEM_DISABLE_MULTICAST=1

bench=${NVSHMEM_BENCH:-$out/nvshmem_bench}
if [ -z "${NVSHMEM_BENCH:-}" ]; then
    OUT=$bench "$peer/build.sh" >"$out/build.log" 2>&1 || { cat "$out/build.log" >&2; exit 1; }
fi
peers=()
failed=0
# What an earlier run has left here is none of this one.
rm -rf "$out"/{nvshmem.csv,torch.txt,shmem.csv,plots}

echo "== NVSHMEM" >&2
# Its exit status is 3 where a row is nan; the row says so itself.
# shellcheck disable=SC2086
"$bench" "$npes" ${PEER_ARGUMENTS:-} >"$out/nvshmem.csv" 2>"$out/nvshmem.log" || [ $? -eq 3 ] || { cat "$out/nvshmem.log" >&2; exit 1; }
peers+=("$out/nvshmem.csv")

if [ -n "${SKIP_TORCH:-}" ]; then
    echo "== torch is left out" >&2
elif python3 -c 'import torch' 2>"$out/torch.log"; then
    echo "== NCCL and torch symmetric memory" >&2
    if python3 -m torch.distributed.run --nproc-per-node "$npes" "$peer/torch_baseline.py" >"$out/torch.txt" 2>"$out/torch.log"; then
        peers+=("$out/torch.txt")
    else
        echo "compare.sh: torch_baseline.py failed, see $out/torch.log" >&2
        failed=1
    fi
else
    echo "compare.sh: no torch here, so no rows of NCCL and torch symmetric memory (SKIP_TORCH=1 says that this is meant)" >&2
    failed=1
fi

echo "== shmem" >&2
# One process for each GPU, as the peers.
# shellcheck disable=SC2086
"$bundle/bin/shmem-run" --no-prefix -n "$npes" -- "$perf" --format csv --csv "$out/shmem.csv" ${PERF_BENCHMARK:-all} \
    >"$out/shmem.log" 2>&1 || { tail -n 20 "$out/shmem.log" >&2; failed=1; }

"$perf" compare --pes "$npes" "$out/shmem.csv" "${peers[@]}" -o "$out/perf-${npes}xgpu.csv" --plot "$out/plots"
exit $failed
