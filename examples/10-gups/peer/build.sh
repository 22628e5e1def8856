#!/usr/bin/env bash
# Builds ./gups. CUDA_HOME, NVSHMEM_HOME, ARCH and OUT may be set; each has a default.
set -euo pipefail
cd "$(dirname "$0")"

if [ -z "${CUDA_HOME:-}" ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
fi
: "${NVSHMEM_HOME:=$(python3 -c 'import nvidia.nvshmem as m; print(list(m.__path__)[0])')}"
: "${ARCH:=sm_90}"
: "${OUT:=gups}"

set -x
"$CUDA_HOME/bin/nvcc" -std=c++17 -O3 -arch="$ARCH" -rdc=true -Xcompiler -Wall \
    -I"$NVSHMEM_HOME/include" \
    gups.cu -o "$OUT" \
    -L"$CUDA_HOME/lib64" -L"$CUDA_HOME/lib" \
    "$NVSHMEM_HOME/lib/libnvshmem_device.a" \
    -Xlinker "$NVSHMEM_HOME/lib/libnvshmem_host.so.3" -Xlinker -rpath -Xlinker "$NVSHMEM_HOME/lib" \
    -lpthread
