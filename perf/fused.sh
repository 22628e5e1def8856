#!/usr/bin/env bash
# Measures the fused kernels of examples/ and their peers on the GPUs of one host, in one run.
#
#   perf/fused.sh BUNDLE PEER [OUT]
#
# BUNDLE: what `cargo xtask bundle fused-norm moe halo-jacobi gather-matmul gups` made; needs no cargo. PEER: the folder of torch_baseline.py. OUT: a folder for the results, default fused-results.
#
#   NPES=2                 PEs, one for each GPU
#   CUDA_HOME, NVSHMEM_HOME, ARCH: as the examples' peer/build.sh have them
set -euo pipefail
[ $# -ge 2 ] && [ $# -le 3 ] || { sed -n '2,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//' >&2; exit 2; }
bundle=$(realpath "$1")
torch=$(realpath "$2")/torch_baseline.py
examples=$(realpath "$(dirname "$0")/../examples")
mkdir -p "${3:-fused-results}"
out=$(realpath "${3:-fused-results}")
npes=${NPES:-2}
for file in "$bundle"/bin/{shmem-run,fused-norm,moe,halo-jacobi,gather-matmul,gups} "$torch"; do
    [ -e "$file" ] || { echo "fused.sh: there is no $file" >&2; exit 2; }
done

# Never NVLink multicast, which can put a shared host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1 TORCH_SYMM_MEM_DISABLE_MULTICAST=1

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
cp -r "$examples"/10-gups/peer "$built/gups"
cp -r "$examples"/08-halo-jacobi/peer "$built/halo"
for peer in gups halo; do
    # OUT means something to some of them.
    env -u OUT bash "$built/$peer/build.sh" >"$out/build-$peer.log" 2>&1 || { cat "$out/build-$peer.log" >&2; exit 1; }
done

failed=0
# A program that hangs takes its own rows with it and no others.
run() {
    echo "== $*"
    timeout 120 "$@" || failed=1
}
ours() { run "$bundle/bin/shmem-run" --no-prefix -n "${n:-$npes}" -- "$bundle/bin/$1" "${@:2}"; }
python() { run python3 -W ignore -m torch.distributed.run --nproc-per-node "$npes" "$@"; }

# As many calls in a graph as ours make: processes begin it some 20 us apart, of which each call has a share.
sed 's/^INNER = 20$/INNER = 100/' "$torch" >"$built/torch_baseline.py"
python "$built/torch_baseline.py" >"$out/torch.txt" 2>"$out/torch.log"
"$built/gups/gups" "$npes" >"$out/gups.txt" 2>"$out/gups.log" || failed=1
{
    for program in fused-norm moe halo-jacobi gather-matmul gups; do ours $program; done
    ours fused-norm --bench --each --peer "$out/torch.txt"
    ours moe --bench --threads 512
    python "$examples/07-moe/peer/moe.py"
    n=1 ours halo-jacobi --bench
    ours halo-jacobi --bench
    run "$built/halo/jacobi_nvshmem" 1
    run "$built/halo/jacobi_nvshmem" "$npes"
    run python3 "$examples/08-halo-jacobi/peer/halo.py"
    ours gather-matmul --bench
    python "$examples/09-gather-matmul/peer/torch_gather_matmul.py"
    ours gups --bench --peer "$out/gups.txt"
} >"$out/fused.txt" 2>"$out/errors.log"
cat "$out/fused.txt"
exit $failed
