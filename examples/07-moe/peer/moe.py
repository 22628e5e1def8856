"""The same in torch and NCCL: rows by all-to-all, once for each of a token's experts, with permutations before and behind. Counts are
known ahead, so that nothing waits for the host, and all of it is in CUDA graphs. Rows: shape,us.
torchrun --nproc-per-node N moe.py"""
import os
import statistics

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
INNER, HIDDEN, TOP, EXPERTS = 100, 7168, 8, 64
LOCAL = -(-EXPERTS // world)


def us(step):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(INNER):
            step()
    times = []
    for repetition in range(11):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        slowest = torch.tensor([begin.elapsed_time(end) * 1e3 / INNER], device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if repetition > 1:
            times.append(slowest.item())
    return statistics.median(times)


def row(what, form, tokens, step):
    took = us(step)
    if rank == 0:
        print(f"{what} {form} {tokens}x{HIDDEN} top {TOP} of {EXPERTS} on {world},{took:.2f}", flush=True)


@torch.compile(dynamic=False)
def take(x, order):
    return x[order]


@torch.compile(dynamic=False)
def take_fp8(x, order):
    """Rows of codes, and behind them their scales."""
    rows = x[order].float().view(order.numel(), HIDDEN // 128, 128)
    scale = rows.abs().amax(dim=2, keepdim=True).clamp(min=1e-30) / 448
    codes = (rows / scale).to(torch.float8_e4m3fn).view(order.numel(), HIDDEN).view(torch.uint8)
    return torch.cat([codes, scale.view(order.numel(), HIDDEN // 128).view(torch.uint8)], dim=1)


@torch.compile(dynamic=False)
def weighted(rows, place, weight):
    return (rows[place].view(weight.shape[0], TOP, HIDDEN).float() * weight.unsqueeze(2)).sum(1).to(torch.bfloat16)


if rank == 0:
    print("shape,us")
for tokens in [1, 8, 16, 32, 64, 128]:
    random = torch.Generator().manual_seed(tokens)
    chosen = [torch.stack([torch.randperm(EXPERTS, generator=random)[:TOP] for _ in range(tokens)]) for _ in range(world)]
    # Mine by expert; how many go to each PE and come from it; what comes by expert.
    order = torch.argsort(chosen[rank].flatten(), stable=True)
    sends = [int(((chosen[rank] // LOCAL) == pe).sum()) for pe in range(world)]
    comes = [int(((chosen[pe] // LOCAL) == rank).sum()) for pe in range(world)]
    arriving = torch.cat([torch.sort(chosen[pe].flatten()[(chosen[pe] // LOCAL).flatten() == rank])[0] for pe in range(world)])
    pack = torch.argsort(arriving, stable=True).to(device)
    unpack = torch.argsort(pack)
    token = (order // TOP).to(device)
    place = torch.argsort(order).to(device)
    x = torch.randn(tokens, HIDDEN, dtype=torch.bfloat16, device=device)
    weight = torch.rand(tokens, TOP, device=device)
    y = torch.randn(sum(comes), HIDDEN, dtype=torch.bfloat16, device=device)
    back = torch.empty(tokens * TOP, HIDDEN, dtype=torch.bfloat16, device=device)
    for form, first in [("bf16", take), ("fp8", take_fp8)]:
        sample = first(x, token)
        inbox = torch.empty(sum(comes), sample.shape[1], dtype=sample.dtype, device=device)

        def dispatch():
            dist.all_to_all_single(inbox, first(x, token), comes, sends)
            return take(inbox, pack)

        def combine():
            dist.all_to_all_single(back, take(y, unpack), sends, comes)
            return weighted(back, place, weight)

        def both():
            dispatch()
            combine()

        row("dispatch", form, tokens, dispatch)
        row("dispatch+combine", form, tokens, both)
dist.destroy_process_group()
