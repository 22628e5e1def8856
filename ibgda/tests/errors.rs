//! Every way in which a set-up on emulated adapters can fail: a typed error with the values and what to do.

mod common;

use common::{HEAP, HEAP_BYTES, Pe, fabric, machine, place};
use shmem_hca::firmware::Capabilities;
use shmem_hca::{Config, Fabric, Memory as _, Ram};
use shmem_ibgda::error::BlobFault;
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{
    Blob, Emulated, Endpoint, GidKind, IbgdaError, Link, Memory, Part, QueueMemory, Region, Request, Settings,
};
use shmem_mlx5::cmd::Status;
use std::sync::{Arc, Mutex};

fn open(machine: &Emulated<Ram>) -> Result<Endpoint, IbgdaError> {
    Endpoint::open(machine, &Settings::default())
}

#[track_caller]
fn says(error: &IbgdaError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

#[test]
fn no_adapter_and_none_that_is_up() {
    let error = open(&machine(0, Link::Ethernet, 0)).err().unwrap();
    assert!(matches!(error, IbgdaError::NoAdapter));
    says(&error, &["mlx5_core"]);
    let mut down = machine(2, Link::Ethernet, 0);
    for i in 0..2 {
        down.describe(i, |adapter| adapter.ports[0].active = false);
    }
    let error = open(&down).err().unwrap();
    assert!(matches!(error, IbgdaError::NoActivePort { .. }));
    says(&error, &["mlx5_0:1, mlx5_1:1", "SHMEM_HCA"]);
}

#[test]
fn names_of_adapters() {
    let machine = machine(3, Link::Ethernet, 0);
    for (hca, name) in [
        ("mlx5_1", Ok("mlx5_1")),
        ("mlx5_2:1", Ok("mlx5_2")),
        ("mlx5_2, mlx5_1", Ok("mlx5_1")),
        (
            "mlx5_9",
            Err("no adapter or port mlx5_9; there are mlx5_0:1, mlx5_1:1, mlx5_2:1"),
        ),
        ("mlx5_0:2", Err("no adapter or port mlx5_0:2")),
        ("mlx5_0:x", Err("a port is a number")),
        ("mlx5_0:0", Err("a port is a number")),
        ("mlx5_0,,", Err("with commas")),
    ] {
        let settings = Settings {
            hca: Some(hca.into()),
            ..Settings::default()
        };
        match (Endpoint::open(&machine, &settings), name) {
            (Ok(endpoint), Ok(name)) => assert_eq!(endpoint.adapter().name, name),
            (Err(error), Err(words)) => {
                assert!(matches!(error, IbgdaError::Setting { name: "SHMEM_HCA", .. }));
                says(&error, &[words, hca]);
            }
            (seen, _) => panic!("{hca}: {:?}", seen.err()),
        }
    }
}

#[test]
fn entries_of_the_gid_table() {
    let mut machine = machine(1, Link::Ethernet, 0);
    for (index, good) in [
        (None, true),
        (Some(1), true),
        (Some(3), true),
        (Some(0), false),
        (Some(9), false),
    ] {
        let settings = Settings {
            gid_index: index,
            ..Settings::default()
        };
        match Endpoint::open(&machine, &settings) {
            Ok(endpoint) => {
                assert!(good, "{index:?}");
                // IPv4 comes before link-local.
                let identity = machine.adapter(0).unwrap().identity();
                let expected = if index == Some(1) {
                    identity.link_local
                } else {
                    identity.ipv4
                };
                assert_eq!(endpoint.blob().gid, expected);
            }
            Err(error) => {
                assert!(!good);
                says(&error, &["mlx5_0 port 1", "RoceV2", "SHMEM_GID_INDEX"]);
            }
        }
    }
    machine.describe(0, |adapter| adapter.ports[0].gids.retain(|g| g.kind == GidKind::RoceV1));
    says(&open(&machine).err().unwrap(), &["RoceV2", "ip addr"]);
}

#[test]
fn partitions_that_the_port_does_not_have() {
    let mut machine = machine(1, Link::InfiniBand, 0);
    let open = |machine: &_, partition| {
        let settings = Settings {
            partition,
            ..Settings::default()
        };
        Endpoint::open(machine, &settings)
    };
    for (entries, partition, good) in [(1, 0, true), (1, 1, false), (128, 127, true), (128, 128, false)] {
        machine.describe(0, |adapter| adapter.ports[0].partitions = entries);
        match open(&machine, partition) {
            Ok(_) => assert!(good, "{partition} of {entries}"),
            Err(error) => {
                assert!(!good, "{partition} of {entries}: {error}");
                let (value, most) = (format!("SHMEM_PARTITION={partition}:"), format!("0 to {}", entries - 1));
                says(&error, &[&value, &most, "mlx5_0 port 1"]);
            }
        }
    }
}

/// A value that is no Unicode is a wrong one, not one that is not there.
#[test]
fn bytes_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    if std::env::var_os("SHMEM_ACK_TIMEOUT").is_some() {
        let error = Settings::from_env().unwrap_err();
        says(&error, &["SHMEM_ACK_TIMEOUT=1\u{fffd}: a number from 1 to 31"]);
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bytes_that_are_no_text_are_refused"])
        .env("SHMEM_ACK_TIMEOUT", std::ffi::OsStr::from_bytes(b"1\xff"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn adapters_that_lack_something() {
    let good = Capabilities::default();
    let cases = [
        (Capabilities { atomic: false, ..good }, "support of atomics is 0"),
        (
            Capabilities {
                atomic_operations: 3,
                ..good
            },
            "set of atomic operations is 3",
        ),
        (
            Capabilities {
                atomic_sizes: 8,
                ..good
            },
            "set of atomic sizes is 8",
        ),
    ];
    for (capabilities, words) in cases {
        let machine = machine(1, Link::Ethernet, 0);
        fabric(&machine).set_capabilities(machine.adapter(0).unwrap(), capabilities);
        let error = open(&machine).err().unwrap();
        assert!(matches!(error, IbgdaError::Capability { .. }));
        says(&error, &[words, "mlx5_0", "firmware"]);
    }
    let config = Config {
        native_atomics: false,
        ..Config::strict(0)
    };
    let fabric = Fabric::new(Ram::new(), config);
    let machine = Emulated::new(Arc::new(Mutex::new(fabric)), 1, Link::Ethernet);
    says(&open(&machine).err().unwrap(), &["byte order of atomic answers is 0"]);
    // A port that says Ethernet on an adapter that has no RoCE.
    let mut machine = common::machine(1, Link::InfiniBand, 0);
    machine.describe(0, |adapter| {
        adapter.ports[0].link = Link::Ethernet;
        adapter.ports[0].gids[0].kind = GidKind::RoceV2;
    });
    says(&open(&machine).err().unwrap(), &["support of RoCE is 0", "devlink"]);
}

#[test]
fn depths_of_the_adapter_are_kept_to() {
    let machine = machine(2, Link::Ethernet, 0);
    let few = Capabilities {
        log_max_reads: 2,
        log_max_blocks: 5,
        log_max_queue_pairs: 2,
        timestamp_formats: 1,
        ..Capabilities::default()
    };
    for i in 0..2 {
        fabric(&machine).set_capabilities(machine.adapter(i).unwrap(), few);
    }
    let mut pe = Pe::open(&machine, &machine, 0, &Settings::default()).unwrap();
    assert_eq!(pe.endpoint.blob().log_reads, 2);
    let error = pe.add_queues(&machine, 1, 2, 6).unwrap_err();
    says(&error, &["log2 of a queue's blocks of 6: 0 to 5"]);
    let error = pe.add_queues(&machine, 3, 2, 4).unwrap_err();
    says(&error, &["queue pairs of 6: at most 4"]);
    pe.add_queues(&machine, 1, 2, 5).unwrap();
    // Another PE at the same adapter: only the firmware knows that there are no more.
    let mut other = Pe::open(&machine, &machine, 1, &Settings::default()).unwrap();
    let error = other.add_queues(&machine, 2, 2, 4).unwrap_err();
    let IbgdaError::Refused {
        command: "CREATE_QP",
        status: Status::Limit,
        ..
    } = error
    else {
        panic!("{error}");
    };
    says(&error, &["mlx5_0: firmware refuses CREATE_QP: Limit", "fewer contexts"]);
}

#[test]
fn sizes_of_queues() {
    let machine = machine(1, Link::InfiniBand, 0);
    let mut pe = Pe::open(&machine, &machine, 0, &Settings::default()).unwrap();
    for (contexts, pes, log2, words) in [
        (1, 0, 4, "number of PEs of 0: 1 or more"),
        (1, 1, 16, "blocks of 16: 0 to 15"),
        (1, 1, 1 << 20, "0 to 15"),
        (u32::MAX, u32::MAX, 4, "queue pairs"),
    ] {
        let error = pe.add_queues(&machine, contexts, pes, log2).unwrap_err();
        assert!(matches!(error, IbgdaError::Size { .. }));
        says(&error, &[words]);
    }
    pe.add_queues(&machine, 0, 3, 4).unwrap();
    assert_eq!(pe.endpoint.queues(), []);
    pe.add_queues(&machine, 1, 1, 4).unwrap();
    let error = pe.add_queues(&machine, 1, 2, 4).unwrap_err();
    says(&error, &["number of PEs of 2: 1, as in earlier contexts"]);
}

#[test]
fn chunks_of_the_heap() {
    let machine = machine(1, Link::InfiniBand, 0);
    let mut pe = Pe::open(&machine, &machine, 0, &Settings::default()).unwrap();
    let heap = pe.heap;
    for (offset, bytes, address, words) in [
        (HEAP, 0, heap, "a chunk's bytes of 0"),
        (u64::MAX - 4095, 8192, heap, "a chunk's bytes"),
        (HEAP + HEAP_BYTES + 8, 64, heap, "as far into a page of 4096 bytes"),
        (
            HEAP + HEAP_BYTES - 4096,
            8192,
            heap,
            "apart from the chunk at 0x200000, 0x10000",
        ),
        (HEAP - 4096, 1 << 30, heap, "apart from the chunk"),
    ] {
        let error = pe.endpoint.add_memory(offset, bytes, &Memory::at(address)).unwrap_err();
        assert!(matches!(error, IbgdaError::Size { .. }));
        says(&error, &[words]);
    }
    let nowhere = Memory::at(0x1234_5000);
    let error = pe.endpoint.add_memory(HEAP + HEAP_BYTES, 4096, &nowhere).unwrap_err();
    assert!(matches!(
        error,
        IbgdaError::Register {
            address: 0x1234_5000,
            bytes: 4096,
            ..
        }
    ));
    says(&error, &["mlx5_0: 4096 bytes at 0x12345000"]);
    // A second chunk behind the first has a key of its own.
    let second = Memory::at(heap + 4096);
    let key = pe.endpoint.add_memory(HEAP + HEAP_BYTES, 4096, &second).unwrap();
    assert_ne!(key, pe.key);
    let blob = pe.endpoint.blob();
    assert_eq!(blob.chunks, pe.endpoint.chunks());
    assert_eq!((blob.chunks[1].start, blob.chunks[1].key), (HEAP + HEAP_BYTES, key));
}

/// Memory that is wrong in one way.
struct Bad {
    machine: Emulated<Ram>,
    next: u64,
    part: Part,
    how: &'static str,
}

impl QueueMemory for Bad {
    fn allocate(&mut self, request: &Request) -> Result<Region, MemoryError> {
        let fill = if request.part == self.part && self.how == "fill" {
            0x11
        } else {
            request.fill
        };
        let address = common::allocate(&self.machine, &mut self.next, request.bytes, fill);
        assert_eq!((request.align, address % 4096), (4096, 0));
        if request.part != self.part {
            return Ok(Region::at(address));
        }
        match self.how {
            "none" => Err("no memory left".into()),
            "misaligned" => Ok(Region::at(address + 64)),
            "short" => Ok(Region::at(address + 4096)),
            _ => Ok(Region::at(address)),
        }
    }

    fn map_registers(&mut self, address: u64, bytes: u64) -> Result<u64, MemoryError> {
        assert_eq!(bytes, 4096);
        if self.how == "registers" {
            return Err("CUDA_ERROR_NOT_PERMITTED".into());
        }
        Ok(address)
    }
}

#[test]
fn memory_for_queues() {
    let bad = |part, how| {
        let machine = machine(1, Link::InfiniBand, 0);
        let mut endpoint = open(&machine).unwrap();
        let mut memory = Bad {
            machine,
            next: 0x6000_0000,
            part,
            how,
        };
        endpoint.add_queues(1, 1, 4, &mut memory).err()
    };
    for part in [Part::Ring, Part::Record, Part::Completion, Part::Landing] {
        let error = bad(part, "none").unwrap();
        assert!(matches!(error, IbgdaError::Memory { part: p, .. } if p == part));
        says(&error, &["no memory left"]);
        let error = bad(part, "misaligned").unwrap();
        assert!(matches!(error, IbgdaError::Alignment { part: p, align: 4096, .. } if p == part));
        let error = bad(part, "short").unwrap();
        assert!(matches!(error, IbgdaError::Register { .. }), "{error}");
        assert!(bad(part, "").is_none());
    }
    let error = bad(Part::Completion, "fill").unwrap();
    says(&error, &["refuses CREATE_CQ"]);
    let error = bad(Part::Ring, "registers").unwrap();
    says(&error, &["CUDA_ERROR_NOT_PERMITTED", "PeerMappingOverride=1"]);
}

#[test]
fn blobs_that_do_not_fit() {
    let machine = machine(2, Link::Ethernet, 0);
    let mut pes: Vec<Pe> = (0..2)
        .map(|i| {
            let settings = Settings {
                turn: i as u32,
                ..Settings::default()
            };
            let mut pe = Pe::open(&machine, &machine, i, &settings).unwrap();
            pe.add_queues(&machine, 1, 2, 4).unwrap();
            pe
        })
        .collect();
    // Adapters that are equally near are taken in turn.
    assert_eq!(pes[1].endpoint.adapter().name, "mlx5_1");
    let good: Vec<Blob> = pes.iter().map(|pe| pe.endpoint.blob()).collect();
    let pe = &mut pes[0].endpoint;
    says(
        &pe.connect(0, &good[..1]).unwrap_err(),
        &["blobs of 1: one of each of 2 PEs"],
    );
    says(&pe.connect(2, &good).unwrap_err(), &["this PE, 2"]);
    let other = |change: fn(&mut Blob)| {
        let mut blobs = good.clone();
        change(&mut blobs[1]);
        blobs
    };
    let error = pe.connect(0, &other(|b| b.ethernet = false)).unwrap_err();
    says(
        &error,
        &["PE 1's port is InfiniBand, this one is Ethernet", "SHMEM_HCA"],
    );
    let error = pe.connect(0, &other(|b| b.pes = 1)).unwrap_err();
    let IbgdaError::Blob {
        pe: 1,
        cause: BlobFault::Number {
            what: "PEs", seen: 1, ..
        },
    } = error
    else {
        panic!("{error}");
    };
    let error = pe.connect(0, &other(|b| b.numbers.truncate(1))).unwrap_err();
    says(&error, &["PE 1", "queue pairs 1, must be 2"]);
    let error = pe.connect(0, &other(|b| b.gid[15] = 99)).unwrap_err();
    says(&error, &["resolving an address"]);
    let error = pe.connect(0, &other(|b| b.numbers[0] = 0x99_9999)).unwrap_err();
    says(&error, &["INIT2RTR_QP", "BadResource"]);
}

#[test]
fn memory_that_goes_away_under_an_endpoint_is_no_trouble() {
    let machine = machine(1, Link::InfiniBand, 0);
    let mut pe = Pe::open(&machine, &machine, 0, &Settings::default()).unwrap();
    pe.add_queues(&machine, 1, 1, 4).unwrap();
    *fabric(&machine).memory_mut() = Ram::new();
    drop(pe);
    assert_eq!(fabric(&machine).take_refusals(), []);
    assert!(fabric(&machine).memory().read(place(0), &mut [0]).is_err());
}

#[test]
fn stores_that_are_to_no_register() {
    let machine = machine(1, Link::InfiniBand, 0);
    let mut pe = Pe::open(&machine, &machine, 0, &Settings::default()).unwrap();
    pe.add_queues(&machine, 1, 1, 4).unwrap();
    let register = pe.endpoint.queues()[0].register;
    for (address, taken) in [
        (0x1000, false),
        (register, true),
        (register + 4096, false),
        (u64::MAX, false),
        (register + (1 << 33), false),
    ] {
        assert_eq!(machine.store(address, &[0; 8]), taken, "{address:#x}");
    }
}
