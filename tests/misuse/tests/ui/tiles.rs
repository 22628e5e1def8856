use shmem::prelude::*;
use shmem::{BlockShared, Ctx, Private};

fn group_out_of_nothing() {
    WarpGroup::<2>.sync();
}

fn shared_memory_by_a_grid(all: Collective, dst: SymSlice<u32>) {
    shared!(row: [u32; 4]);
    shmem::put(all.grid(), dst, row, 1);
}

fn private_context_by_a_block(ctx: Ctx<Private>) {
    ctx.quiet(Block);
}

fn block_context_by_a_grid(all: Collective, ctx: Ctx<BlockShared>) {
    ctx.quiet(all.grid());
}

fn main() {}
