//! Indices that wrap: more than 2^17 blocks through queues of 1 to 2^15, with entries of one and two blocks, so that
//! entries lie across a queue's end and across 2^16.

mod common;

use common::{Options, Rig};
use shmem_hca::{Config, Delivery};
use shmem_mlx5::Unit;
use shmem_mlx5::completion::Kind;
use shmem_mlx5::entry::{self, Masked};

/// Posts until `blocks` were posted, `batch` entries a doorbell, each batch's last one signalled.
fn wrap(log2: u8, completions_log2: u8, collapsed: bool, batch: u64, blocks: u64) {
    let config = Config {
        delivery: Delivery::Eager,
        ..Config::strict(0)
    };
    let options = Options {
        log2,
        completions_log2,
        collapsed,
        ..Options::default()
    };
    let mut rig = Rig::new(config, options);
    let mut sum = 0u64;
    let mut i = 0u64;
    while rig.queues[0][1].posted < blocks {
        let most = if log2 == 0 { 1 } else { 2 };
        rig.make_room(0, 1, batch * most);
        for k in 0..batch {
            let mut post = rig.next(0, 1);
            if k + 1 == batch {
                post = post.signalled();
            }
            let (to, back) = (rig.remote(1, 0x1000), rig.local(0, 0x1000));
            // Every third entry takes two blocks: it adds by a compare-and-swap that always succeeds.
            let units: Vec<Unit> = if i.is_multiple_of(3) && log2 > 0 {
                let what = Masked {
                    swap: sum + i,
                    compare: sum,
                    swap_mask: u64::MAX,
                    compare_mask: u64::MAX,
                };
                entry::masked_compare_swap64(post, to, what, back).into()
            } else {
                entry::fetch_add(post, to, i, back).into()
            };
            rig.write(0, 1, &units);
            sum += i;
            i += 1;
        }
        rig.ring(0, 1);
        rig.fabric.run();
        if collapsed {
            assert_eq!(rig.look(0, 1), Some(Kind::Request));
        } else {
            assert_eq!(rig.take(0, 1).map(|(kind, ..)| kind), Some(Kind::Request));
        }
        assert_eq!(rig.queues[0][1].done, rig.queues[0][1].posted);
    }
    rig.clean();
    assert_eq!(rig.heap(1, 0x1000, 8), sum.to_ne_bytes());
}

#[test]
fn queue_of_16_past_2_to_17() {
    wrap(4, 4, false, 5, (1 << 17) + 100);
}

#[test]
fn queue_of_16_through_a_collapsed_queue_past_2_to_17() {
    wrap(4, 0, true, 7, (1 << 17) + 100);
}

#[test]
fn smallest_queues() {
    wrap(0, 0, false, 1, (1 << 16) + 100);
    wrap(1, 1, false, 1, (1 << 16) + 100);
}

#[test]
fn largest_queue_past_2_to_17() {
    wrap(15, 3, false, 1000, (1 << 17) + 5000);
}
