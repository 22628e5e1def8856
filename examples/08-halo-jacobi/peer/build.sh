#!/usr/bin/env bash
# Builds ./jacobi_nvshmem. CUDA_HOME, NVSHMEM_HOME, ARCH may be set; each has a default.
set -euo pipefail
cd "$(dirname "$0")"
if [ -z "${CUDA_HOME:-}" ]; then
    nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
    CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
fi
: "${NVSHMEM_HOME:=$(python3 -c 'import nvidia.nvshmem as m; print(list(m.__path__)[0])')}"
"$CUDA_HOME/bin/nvcc" -std=c++17 -O3 -arch="${ARCH:-sm_90}" -rdc=true -I"$NVSHMEM_HOME/include" jacobi_nvshmem.cu \
    -o jacobi_nvshmem -L"$CUDA_HOME/lib64" -L"$CUDA_HOME/lib" "$NVSHMEM_HOME/lib/libnvshmem_device.a" \
    -Xlinker "$NVSHMEM_HOME/lib/libnvshmem_host.so.3" -Xlinker -rpath -Xlinker "$NVSHMEM_HOME/lib" -lpthread
