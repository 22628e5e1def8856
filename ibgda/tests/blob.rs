//! What peers tell each other: read back as it was written, and never trusted.

use proptest::prelude::*;
use shmem_ibgda::Blob;
use shmem_ibgda::blob::ChunkKey;
use shmem_ibgda::error::BlobFault;

fn blobs() -> impl Strategy<Value = Blob> {
    let numbers = (0..5u32).prop_flat_map(|pes| (Just(pes), prop::collection::vec(0..1u32 << 24, pes as usize * 3)));
    let chunk = (any::<u32>(), 1..u64::from(u32::MAX), any::<u32>());
    let chunks = prop::collection::vec(chunk, 0..4);
    (
        any::<bool>(),
        any::<u16>(),
        any::<[u8; 16]>(),
        1..6u8,
        0..8u8,
        numbers,
        chunks,
    )
        .prop_map(|(ethernet, lid, gid, mtu, log_reads, (pes, numbers), chunks)| Blob {
            ethernet,
            lid,
            gid,
            mtu,
            log_reads,
            pes,
            numbers,
            chunks: chunks
                .into_iter()
                .map(|(start, bytes, key)| ChunkKey {
                    start: start.into(),
                    bytes,
                    key,
                })
                .collect(),
        })
}

proptest! {
    #[test]
    fn what_was_written_is_read(blob in blobs()) {
        prop_assert_eq!(Blob::parse(&blob.to_bytes()), Ok(blob));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused(blob in blobs(), at in any::<prop::sample::Index>()) {
        let mut bytes = blob.to_bytes();
        let cut = at.index(bytes.len());
        prop_assert!(Blob::parse(&bytes[..cut]).is_err());
        bytes.push(0);
        prop_assert_eq!(Blob::parse(&bytes), Err(BlobFault::Longer(1)));
    }

    #[test]
    fn whatever_the_bytes_are_there_is_a_blob_or_an_error(
        blob in blobs(),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        fresh in any::<bool>(),
    ) {
        let bytes = if fresh {
            [&b"SHIB\x01\x00"[..], &bytes].concat()
        } else {
            let mut written = blob.to_bytes();
            for (at, byte) in changes {
                let at = at.index(written.len());
                written[at] = byte;
            }
            written
        };
        if let Ok(blob) = Blob::parse(&bytes) {
            prop_assert!((1..=5).contains(&blob.mtu) && blob.log_reads < 8);
            prop_assert!(blob.numbers.iter().all(|n| n >> 24 == 0));
        }
    }
}

fn good() -> Blob {
    Blob {
        ethernet: true,
        lid: 0,
        gid: [1; 16],
        mtu: 3,
        log_reads: 4,
        pes: 2,
        numbers: vec![1, 2],
        chunks: vec![ChunkKey {
            start: 0,
            bytes: 1,
            key: 7,
        }],
    }
}

/// A heap that a peer's chunks don't cover would else be named by a key of nothing.
#[test]
fn the_key_of_a_range_is_that_of_the_chunk_that_has_it_all() {
    let chunk = |start, bytes, key| ChunkKey { start, bytes, key };
    let blob = Blob {
        chunks: vec![chunk(0, 0x2000, 7), chunk(0x2000, 0x1000, 8)],
        ..good()
    };
    assert_eq!(blob.key(0, 0x2000), Ok(7));
    assert_eq!(blob.key(0x2000, 0x1000), Ok(8));
    assert_eq!(blob.key(0x2fff, 1), Ok(8));
    for (start, bytes) in [(0, 0x2001), (0x1fff, 2), (0x3000, 1), (u64::MAX, 2), (0, u64::MAX)] {
        assert_eq!(blob.key(start, bytes), Err(BlobFault::NoKey { start, bytes }));
    }
    let none = Blob { chunks: vec![], ..blob };
    let text = none.key(0, 0x2000).unwrap_err().to_string();
    assert_eq!(text, "has no key for 0x2000 bytes at 0x0 of its heap");
}

#[test]
fn numbers_that_do_not_belong_together_are_refused() {
    let good = good();
    assert_eq!(Blob::parse(&good.to_bytes()).as_ref(), Ok(&good));
    let changes: [fn(&mut Blob); 9] = [
        |b| b.mtu = 0,
        |b| b.mtu = 6,
        |b| b.log_reads = 8,
        |b| b.pes = 0,
        |b| b.pes = 3,
        |b| b.numbers[0] = 1 << 24,
        |b| b.chunks[0].bytes = 0,
        |b| b.chunks[0].start = u64::MAX,
        |b| b.numbers.push(5),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = Blob::parse(&bad.to_bytes());
        assert!(matches!(refused, Err(BlobFault::Number { .. })), "{i}: {refused:?}");
    }
}
