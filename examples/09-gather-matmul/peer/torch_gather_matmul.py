"""What a PyTorch user would run instead: all_gather_into_tensor (NCCL), then torch.matmul (cuBLAS). Rows: shape,us.
torchrun --nproc-per-node N torch_gather_matmul.py"""
import os, statistics, torch, torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
LAUNCHES = 10

def us(f):
    times = []
    for _ in range(7):
        dist.barrier(); torch.cuda.synchronize()
        f()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(LAUNCHES): f()
        b.record(); torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / LAUNCHES)
    return statistics.median(times)

for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 8192), (8192, 1024, 8192), (8192, 512, 8192)]:
    # Uniform, as our data: what the numbers are changes the power that a product takes, and so the clock.
    own = torch.rand(m // world, k, dtype=torch.bfloat16, device=device) * 2 - 1
    b = torch.rand(n, k, dtype=torch.bfloat16, device=device) * 2 - 1
    a, c = torch.empty(m, k, dtype=torch.bfloat16, device=device), torch.empty(m, n, dtype=torch.bfloat16, device=device)
    def gather(): dist.all_gather_into_tensor(a, own)
    def matmul(): torch.matmul(a, b.t(), out=c)
    def both(): gather(); matmul()
    gather()
    for name, f in [("matmul", matmul), ("gather", gather), ("gather+matmul", both)]:
        t = us(f)
        if rank == 0: print(f"{name} {m}x{n}x{k},{t:.1f}", flush=True)
dist.destroy_process_group()
