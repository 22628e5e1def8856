//! The set-up through libibverbs and libmlx5: the bindings as they are, loaded from a library without an adapter
//! (`fake/lib.rs`), which passes commands on to emulated ones.

use libloading::Library;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use shmem_ibgda::memory::MemoryError;
use shmem_ibgda::{
    Blob, Calls, DmaBuf, Endpoint, IbgdaError, Link, Memory, Pages, QueueParts, Region, Request, Settings, Verbs,
};
use shmem_mlx5::completion::{Kind, Tail};
use shmem_mlx5::{
    Index, Length, Local, LocalKey, Post, QueuePair, QueueSize, Remote, RemoteKey, Unit, doorbell, entry,
};
use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The library, for one test at a time.
struct Fake {
    library: Library,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Fake {
    fn path() -> PathBuf {
        let test = std::env::current_exe().expect("a path");
        let made = test.with_file_name("../examples/libfake_verbs.so");
        assert!(
            made.exists(),
            "{} is not built: `cargo test -p shmem-ibgda` builds it",
            made.display()
        );
        made
    }

    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: it has no initialisers.
        let library = unsafe { Library::new(Self::path()) }.expect("it is a library");
        let fake = Self { library, _turn: turn };
        assert_eq!(fake.left(), 0, "an earlier test left something");
        fake
    }

    fn verbs() -> Verbs {
        Verbs::load_from(Self::path(), Self::path()).unwrap()
    }

    fn poll(&self) {
        // SAFETY: the function of this name.
        unsafe { self.library.get::<extern "C" fn()>(b"fake_poll\0").unwrap()() }
    }

    fn left(&self) -> i64 {
        // SAFETY: the function of this name.
        unsafe { self.library.get::<extern "C" fn() -> i64>(b"fake_left\0").unwrap()() }
    }

    fn faults(&self) -> usize {
        // SAFETY: the function of this name.
        unsafe { self.library.get::<extern "C" fn() -> usize>(b"fake_faults\0").unwrap()() }
    }

    fn devices(&self, count: c_int) {
        // SAFETY: the function of this name.
        unsafe { self.library.get::<extern "C" fn(c_int)>(b"fake_devices\0").unwrap()(count) }
    }

    fn refuse<T>(&self, name: &str, errno: c_int, body: impl FnOnce() -> T) -> T {
        let text = CString::new(name).unwrap();
        // SAFETY: the function of this name.
        let set = unsafe {
            self.library
                .get::<unsafe extern "C" fn(*const c_char, c_int)>(b"fake_refuse\0")
                .unwrap()
        };
        // SAFETY: a string, both times.
        unsafe { set(text.as_ptr(), errno) };
        let result = body();
        // SAFETY: as above.
        unsafe { set(text.as_ptr(), 0) };
        result
    }
}

/// Memory that stays for as long as the process does, as what adapters were told of must; in a file that stands for a
/// dma-buf.
fn pages(bytes: u64, fill: u8) -> (u64, OwnedFd) {
    let fd = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    // A page lies before it, so that its offset is not 0.
    File::from(fd.try_clone().unwrap()).set_len(bytes + 4096).unwrap();
    let flags = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: at an address that the system chooses.
    let start = unsafe { mmap(ptr::null_mut(), bytes as usize, flags, MapFlags::SHARED, &fd, 4096) }.unwrap();
    // SAFETY: mapped just now.
    unsafe { start.cast::<u8>().write_bytes(fill, bytes as usize) };
    (start.expose_provenance() as u64, fd)
}

fn word<'a>(address: u64) -> &'a AtomicU64 {
    // SAFETY: addresses here are of pages that stay, and are aligned.
    unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(address as usize)) }
}

fn half<'a>(address: u64) -> &'a AtomicU32 {
    // SAFETY: as above.
    unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address as usize)) }
}

const HEAP: u64 = 0x40_0000;

struct Pe {
    endpoint: Endpoint,
    heap: u64,
    key: u32,
}

/// With memory told of by dma-buf, or by its address.
fn pe(verbs: &dyn Calls, name: &str, dma_buf: bool) -> Result<Pe, IbgdaError> {
    let settings = Settings {
        hca: Some(name.into()),
        // Registers are polled here.
        pages: Pages::Each,
        ..Settings::default()
    };
    let memory = |address, fd| Memory {
        address,
        dma_buf: dma_buf.then_some(DmaBuf { fd, offset: 4096 }),
    };
    let mut endpoint = Endpoint::open(verbs, &settings)?;
    let (heap, fd) = pages(0x4000, 0);
    let key = endpoint.add_memory(HEAP, 0x4000, &memory(heap, fd))?;
    let mut queues = |request: &Request| -> Result<Region, MemoryError> {
        let (address, fd) = pages(request.bytes, request.fill);
        Ok(Region {
            address,
            memory: memory(address, fd),
        })
    };
    endpoint.add_queues(2, 2, 4, &mut queues)?;
    Ok(Pe { endpoint, heap, key })
}

fn job(verbs: &dyn Calls, dma_buf: bool) -> Result<[Pe; 2], IbgdaError> {
    let mut pes = [pe(verbs, "mlx5_0", dma_buf)?, pe(verbs, "mlx5_1", dma_buf)?];
    let blobs: Vec<_> = pes
        .iter()
        .map(|pe| Blob::parse(&pe.endpoint.blob().to_bytes()).unwrap())
        .collect();
    for (i, pe) in pes.iter_mut().enumerate() {
        pe.endpoint.connect(i as u32, &blobs)?;
    }
    Ok(pes)
}

/// Posts an entry as the first of its queue.
fn post(fake: &Fake, parts: &QueueParts, entry: impl FnOnce(Post) -> Vec<Unit>) -> Option<Kind> {
    let size = QueueSize::from_log2(parts.log2 as u8).unwrap();
    let index = Index::new(0);
    let units = entry(Post::new(index, QueuePair::new(parts.number).unwrap()).signalled());
    for (i, unit) in units.iter().enumerate() {
        let at = parts.ring + size.offset_of_unit(index, i) as u64;
        let [low, high] = unit.as_long();
        word(at).store(low, Ordering::Relaxed);
        word(at + 8).store(high, Ordering::Relaxed);
    }
    half(parts.record).store(doorbell::record(index.after(units.len())).raw(), Ordering::Release);
    word(parts.register).store(doorbell::register(units[0]).raw(), Ordering::Release);
    fake.poll();
    Tail::from_raw(half(parts.completion + 60).load(Ordering::Acquire)).kind()
}

#[test]
fn a_set_up_through_the_libraries_moves_bytes() {
    let fake = Fake::new();
    for dma_buf in [false, true] {
        let pes = job(&Fake::verbs(), dma_buf).unwrap();
        for (from, to, context) in [(0, 1, 0), (1, 0, 0), (0, 1, 1), (0, 0, 0), (1, 1, 1)] {
            let parts = pes[from].endpoint.queues()[context * 2 + to];
            let value = 0x1122_3344_5566_7788 + context as u64;
            word(pes[from].heap + 64).store(value, Ordering::Relaxed);
            word(pes[to].heap + 128).store(0, Ordering::Relaxed);
            let there = Remote {
                address: HEAP + 128,
                key: RemoteKey(pes[to].key),
            };
            let here = Local {
                address: HEAP + 64,
                key: LocalKey(pes[from].key),
            };
            let done = post(&fake, &parts, |post| {
                entry::write(post, there, here, Length::new(8).unwrap()).to_vec()
            });
            assert_eq!((done, fake.faults()), (Some(Kind::Request), 0));
            assert_eq!(word(pes[to].heap + 128).load(Ordering::Relaxed), value);
        }
        // Where answers land.
        let parts = pes[1].endpoint.queues()[0];
        let there = Remote {
            address: HEAP + 128,
            key: RemoteKey(pes[0].key),
        };
        let before = word(pes[0].heap + 128).load(Ordering::Relaxed);
        assert_ne!(before, 0);
        let old = Local {
            address: parts.landing_at + 64,
            key: LocalKey(parts.landing_key),
        };
        // The queue's first entry was posted above: this one is its second.
        let other = pes[1].endpoint.queues()[2];
        assert_eq!(other.landing_at, other.landing);
        let old = Local {
            address: other.landing_at + 64,
            ..old
        };
        let done = post(&fake, &other, |post| entry::fetch_add(post, there, 1, old).to_vec());
        assert_eq!((done, fake.faults()), (Some(Kind::Request), 0));
        assert_eq!(word(other.landing + 64).load(Ordering::Relaxed), before);
        assert_ne!(fake.left(), 0);
        drop(pes);
        assert_eq!(fake.left(), 0);
    }
}

#[test]
fn adapters_are_listed_as_they_are() {
    let fake = Fake::new();
    let verbs = Fake::verbs();
    let adapters = verbs.adapters().unwrap();
    let names: Vec<_> = adapters.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_1"], "others are left out");
    let [port] = &adapters[1].ports[..] else {
        panic!("{adapters:?}");
    };
    assert_eq!(
        (port.number, port.link, port.active, port.lid, port.mtu as u8),
        (1, Link::Ethernet, true, 0, 4)
    );
    assert_eq!(port.gids.iter().map(|g| g.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(port.gids[3].bytes[10..14], [0xff, 0xff, 10, 0]);
    for devices in [0, -1] {
        fake.devices(devices);
        let error = Endpoint::open(&verbs, &Settings::default()).err().unwrap();
        assert!(matches!(error, IbgdaError::NoAdapter), "{error}");
    }
    fake.devices(2);
    assert_eq!(fake.left(), 0);
}

#[test]
fn whatever_is_refused_is_an_error_with_its_call_and_leaves_nothing() {
    let fake = Fake::new();
    let verbs = Fake::verbs();
    let (permission, memory) = (libc::EACCES, libc::ENOMEM);
    for (function, errno, words) in [
        (
            "ibv_get_device_list",
            permission,
            &["ibv_get_device_list", "Permission denied"][..],
        ),
        ("ibv_open_device", permission, &["mlx5_0", "/dev/infiniband/uverbs"]),
        ("mlx5dv_open_device", libc::EOPNOTSUPP, &["mlx5_0", "DevX", "UCTX_EN"]),
        (
            "ibv_query_port",
            libc::EINVAL,
            &["no active port among mlx5_0 (which has no port)"],
        ),
        ("_ibv_query_gid_table", libc::EINVAL, &["no RoceV2 address"]),
        ("ibv_alloc_pd", memory, &["ibv_alloc_pd", "Cannot allocate memory"]),
        ("mlx5dv_init_obj", libc::EINVAL, &["mlx5dv_init_obj"]),
        ("mlx5dv_devx_query_eqn", libc::EINVAL, &["mlx5dv_devx_query_eqn"]),
        (
            "mlx5dv_devx_alloc_uar",
            memory,
            &["mlx5dv_devx_alloc_uar", "LOG_MAX_UAR"],
        ),
        (
            "mlx5dv_devx_umem_reg",
            libc::EFAULT,
            &["can't be registered", "Bad address", "nvidia-peermem"],
        ),
        (
            "ibv_reg_mr_iova2",
            libc::EFAULT,
            &["can't be registered", "nvidia-peermem", "ulimit -l"],
        ),
        (
            "mlx5dv_devx_obj_create",
            libc::EPERM,
            &["mlx5dv_devx_obj_create", "not permitted"],
        ),
        (
            "mlx5dv_devx_obj_modify",
            libc::EPERM,
            &["mlx5dv_devx_obj_modify", "not permitted"],
        ),
        (
            "mlx5dv_devx_general_cmd",
            libc::EPERM,
            &["mlx5dv_devx_general_cmd", "not permitted"],
        ),
        ("ibv_create_ah", libc::ENETUNREACH, &["ibv_create_ah", "ip neigh"]),
    ] {
        let error = fake.refuse(function, errno, || job(&verbs, false).err());
        let error = error.unwrap_or_else(|| panic!("{function} was refused, and nobody noticed"));
        for word in words {
            assert!(
                error.to_string().contains(word),
                "{function}: {word:?} is not in: {error}"
            );
        }
        assert_eq!(fake.left(), 0, "{function}");
    }
}

#[test]
fn where_dma_bufs_are_not_taken_addresses_are() {
    let fake = Fake::new();
    let verbs = Fake::verbs();
    for function in ["ibv_reg_dmabuf_mr", "mlx5dv_devx_umem_reg_ex"] {
        fake.refuse(function, libc::EOPNOTSUPP, || job(&verbs, true)).unwrap();
    }
    let error = fake.refuse("ibv_reg_dmabuf_mr", libc::EOPNOTSUPP, || {
        fake.refuse("ibv_reg_mr_iova2", libc::EFAULT, || job(&verbs, true).err().unwrap())
    });
    let text = error.to_string();
    assert!(
        text.contains("by dma-buf: Operation not supported") && text.contains("by address: Bad address"),
        "{text}"
    );
    assert_eq!(fake.left(), 0);
}

#[test]
fn older_libraries_have_one_page_of_registers_for_all() {
    let fake = Fake::new();
    let pes = fake.refuse("old", 1, || job(&Fake::verbs(), false)).unwrap();
    assert_eq!(pes[0].endpoint.queues().len(), 4);
}

#[test]
fn firmware_that_refuses_is_quoted() {
    let fake = Fake::new();
    let verbs = Fake::verbs();
    let of = |partition| Settings {
        partition,
        ..Settings::default()
    };
    let refused = Endpoint::open(&verbs, &of(8)).unwrap_err().to_string();
    assert!(
        refused.starts_with("SHMEM_PARTITION=8: mlx5_0 port 1 has partition keys 0 to 7;"),
        "{refused}"
    );
    let settings = of(7);
    let mut endpoint = Endpoint::open(&verbs, &settings).unwrap();
    let mut queues =
        |request: &Request| -> Result<Region, MemoryError> { Ok(Region::at(pages(request.bytes, request.fill).0)) };
    endpoint.add_queues(1, 1, 4, &mut queues).unwrap();
    let blob = endpoint.blob();
    let error = endpoint.connect(0, &[blob]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("mlx5_0: firmware refuses RST2INIT_QP: BadParameter, syndrome 0x00f50190"),
        "{text}"
    );
    drop(endpoint);
    assert_eq!(fake.left(), 0);
}

#[test]
fn libraries_that_are_none_are_errors() {
    let _turn = Fake::new();
    let error = Verbs::load_from("/nowhere.so", Fake::path()).unwrap_err();
    assert!(
        matches!(
            error,
            IbgdaError::Library {
                library: "libibverbs.so.1",
                ..
            }
        ),
        "{error}"
    );
    let error = Verbs::load_from(Fake::path(), "/nowhere.so").unwrap_err();
    assert!(
        matches!(
            error,
            IbgdaError::Library {
                library: "libmlx5.so.1",
                ..
            }
        ),
        "{error}"
    );
    // Some library without these functions.
    let error = Verbs::load_from("libc.so.6", Fake::path()).unwrap_err();
    assert!(
        matches!(
            error,
            IbgdaError::Function {
                function: "ibv_get_device_list",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_real_libraries_have_what_is_used() {
    match Verbs::load() {
        // Where they are installed, each function is found; adapters or not.
        Ok(verbs) => match verbs.adapters() {
            Ok(adapters) => eprintln!("{} adapters", adapters.len()),
            Err(error) => eprintln!("{error}"),
        },
        Err(IbgdaError::Library { library, cause }) => eprintln!("skipped: {library}: {cause}"),
        Err(error) => panic!("{error}"),
    }
}
