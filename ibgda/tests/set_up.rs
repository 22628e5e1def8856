//! The whole set-up on emulated adapters, and bytes moved over what it made.

mod common;

use common::{Job, fabric};
use shmem_ibgda::Link;
use shmem_mlx5::completion::Kind;
use shmem_mlx5::{Length, Local, LocalKey, entry};

const LINKS: [Link; 2] = [Link::InfiniBand, Link::Ethernet];

#[test]
fn every_pe_writes_reads_and_adds_at_every_pe_in_every_context() {
    for link in LINKS {
        let (pes, contexts) = (3, 2);
        let mut job = Job::new(pes, contexts, link, 5);
        for from in 0..pes as usize {
            for to in 0..pes as usize {
                for context in 0..contexts as usize {
                    let slot = ((from * 3 + to) * 2 + context) as u64 * 64;
                    let data = [slot as u8 + 1; 24];
                    job.set_heap(from, slot, &data);
                    let (there, here) = (job.remote(to, 0x2000 + slot), job.local(from, slot));
                    let length = Length::new(24).unwrap();
                    let done = job.post(from, context, to, |post| {
                        entry::write(post, there, here, length).to_vec()
                    });
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    assert_eq!(job.heap(to, 0x2000 + slot, 24), data);
                    // The answer of an atomic lands in the queue pair's own slots, the last of them included.
                    let parts = job.parts(from, context, to);
                    let last = (1u64 << parts.log2) * 64;
                    let old = Local {
                        address: parts.landing_at + last,
                        key: LocalKey(parts.landing_key),
                    };
                    let done = job.post(from, context, to, |post| entry::fetch_add(post, there, 1, old).to_vec());
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    assert_eq!(job.memory(parts.landing + last, 8), data[..8]);
                    let back = job.local(from, 0x4000 + slot);
                    let done = job.post(from, context, to, |post| {
                        entry::read(post, there, back, length).to_vec()
                    });
                    assert_eq!(
                        done,
                        Some(Kind::Request),
                        "{:?}",
                        fabric(&job.machine).take_violations()
                    );
                    let got = job.heap(from, 0x4000 + slot, 8);
                    let expected = u64::from_ne_bytes(data[..8].try_into().unwrap()) + 1;
                    assert_eq!(got, expected.to_ne_bytes());
                }
            }
        }
        job.clean();
    }
}
