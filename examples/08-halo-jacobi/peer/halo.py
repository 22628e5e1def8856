"""The same iteration in torch, on one GPU: compiled, and the copy that bounds it. Rows: shape,us.
python3 halo.py [SIZE]"""
import statistics
import sys

import torch

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
INNER = 20


def us(step):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(INNER):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / INNER)
    return statistics.median(times)


# A row above and below, as each PE has.
u = torch.rand(SIZE + 2, SIZE, device="cuda")
v = u.clone()


@torch.compile
def jacobi(u, v):
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


print("shape,us")
print(f"copy {SIZE}x{SIZE},{us(lambda: v.copy_(u)):.1f}")
print(f"{SIZE}x{SIZE} on 1,{us(lambda: jacobi(u, v)):.1f}")
