//! The job as PMIx tells it: Open MPI's mpirun and Slurm's srun are servers of it. The library is loaded at run time.
//!
//! PMIx gives rank and size, and carries one text from rank 0 to all: where it listens, and a fresh secret. All else goes over that
//! connection. Names, types and constants are those of the PMIx standard, version 4, and of `pmix_common.h`.

use crate::BootstrapError;
use crate::interfaces::addresses;
use crate::node::this_node;
use crate::secret::Secret;
use crate::socket::Listener;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

/// What PMIx said.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) addresses: Vec<String>,
    pub(crate) secret: Secret,
    /// Rank 0's. It stays open, so that the process may join again.
    pub(crate) listener: Option<Arc<Listener>>,
}

/// Asks once per process: PMIx can't be relied on to start a second time after its end.
pub(crate) fn job(limit: Duration) -> Result<&'static Job, BootstrapError> {
    static JOB: OnceLock<Result<Job, BootstrapError>> = OnceLock::new();
    // PMIx has no time limit that every server heeds. The thread stays behind if it does not come back.
    let (done, when) = mpsc::channel();
    std::thread::spawn(move || done.send(JOB.get_or_init(ask).as_ref().map_err(Clone::clone)));
    when.recv_timeout(limit).unwrap_or_else(|_| {
        Err(BootstrapError::Pmix {
            call: "PMIx_Fence",
            cause: format!("not all processes came within {limit:.1?} (SHMEM_JOIN_TIMEOUT)"),
        })
    })
}

const KEY: &CStr = c"shmem.root";
const JOB_SIZE: &CStr = c"pmix.job.size";
const LOCAL_SIZE: &CStr = c"pmix.local.size";
const COLLECT_DATA: &[u8] = b"pmix.collect";
const RANK_WILDCARD: u32 = u32::MAX - 1;
const SUCCESS: c_int = 0;
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: the largest member of its union has three words.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    flag: bool,
    uint32: u32,
    string: *const c_char,
    words: [u64; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions, and this process.
struct Client {
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: Option<ErrorString>,
    me: Proc,
}

impl Drop for Client {
    /// The launcher takes a process that ends without it for a failed one.
    fn drop(&mut self) {
        // SAFETY: PMIx_Init succeeded; no directives.
        let _ = unsafe { (self.finalize)(std::ptr::null(), 0) };
    }
}

fn ask() -> Result<Job, BootstrapError> {
    let client = Client::start()?;
    let rank = client.me.rank;
    let everyone = Proc {
        rank: RANK_WILDCARD,
        ..client.me
    };
    let size = client.number(&everyone, JOB_SIZE)?;
    let mut listener = None;
    if rank == 0 {
        let alone = client.number(&everyone, LOCAL_SIZE).is_ok_and(|local| local == size);
        let (made, text) = listen(alone)?;
        listener = Some(Arc::new(made));
        client.put(&text)?;
    }
    client.fence()?;
    let text = client.text(&Proc { rank: 0, ..client.me }, KEY)?;
    let (addresses, secret) = understand(&text, &this_node())?;
    Ok(Job {
        rank,
        size,
        addresses,
        secret,
        listener,
    })
}

/// Rank 0: a socket, and what to tell of it: secret, port, node, addresses, each on a line.
fn listen(one_node: bool) -> Result<(Listener, String), BootstrapError> {
    let refuse = |e: std::io::Error| BootstrapError::Listen {
        address: "any port".into(),
        cause: e.to_string(),
    };
    let listener = if one_node {
        Listener::Tcp(std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(refuse)?)
    } else {
        Listener::bind_everywhere(0).map_err(refuse)?
    };
    let port = listener.local_port().map_err(refuse)?;
    let secret = Secret::random()?;
    let mut lines = vec![
        String::from_utf8_lossy(secret.reveal()).into_owned(),
        port.to_string(),
        this_node(),
    ];
    lines.extend(addresses());
    Ok((listener, lines.join("\n")))
}

/// Addresses to try, and the secret. On rank 0's node the loopback is enough.
fn understand(text: &str, node: &str) -> Result<(Vec<String>, Secret), BootstrapError> {
    let broken = || BootstrapError::Pmix {
        call: "PMIx_Get",
        cause: "rank 0's text is cut or of another version".into(),
    };
    let mut lines = text.lines();
    let secret = Secret::new(lines.next().ok_or_else(broken)?).map_err(|_| broken())?;
    let port: u16 = lines.next().and_then(|l| l.parse().ok()).ok_or_else(broken)?;
    let same = lines.next().ok_or_else(broken)? == node;
    let addresses = if same {
        vec![format!("127.0.0.1:{port}")]
    } else {
        lines
            .map(|a| {
                if a.contains(':') {
                    format!("[{a}]:{port}")
                } else {
                    format!("{a}:{port}")
                }
            })
            .collect()
    };
    Ok((addresses, secret))
}

impl Client {
    fn start() -> Result<Self, BootstrapError> {
        let refuse = |e: libloading::Error| BootstrapError::Pmix {
            call: "loading libpmix.so.2",
            cause: format!("{e}; install it (Debian: libpmix2)"),
        };
        // SAFETY: libpmix's initialisers have no conditions.
        let library = unsafe { libloading::Library::new("libpmix.so.2") }.map_err(refuse)?;
        // PMIx leaves threads that run its code: it is never unloaded.
        let library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of the standard's function of this name.
                *unsafe { library.get($name) }.map_err(refuse)?
            };
        }
        let init: Init = function!(b"PMIx_Init\0");
        let mut client = Self {
            finalize: function!(b"PMIx_Finalize\0"),
            put: function!(b"PMIx_Put\0"),
            commit: function!(b"PMIx_Commit\0"),
            fence: function!(b"PMIx_Fence\0"),
            get: function!(b"PMIx_Get\0"),
            // SAFETY: as above.
            error_string: unsafe { library.get(b"PMIx_Error_string\0") }.ok().map(|f| *f),
            me: Proc {
                nspace: [0; 256],
                rank: 0,
            },
        };
        // SAFETY: `me` is a place for a pmix_proc_t; no directives.
        let status = unsafe { init(&raw mut client.me, std::ptr::null_mut(), 0) };
        if let Err(error) = client.check("PMIx_Init", status) {
            // Nothing was started that could be finalized.
            std::mem::forget(client);
            return Err(error);
        }
        Ok(client)
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), BootstrapError> {
        if status == SUCCESS {
            return Ok(());
        }
        let words = self.error_string.map(|f| {
            // SAFETY: it returns a constant string, or null.
            let text = unsafe { f(status) };
            if text.is_null() {
                String::new()
            } else {
                // SAFETY: not null, and a string that is never freed.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
            }
        });
        Err(BootstrapError::Pmix {
            call,
            cause: format!("{} ({status})", words.unwrap_or_default()),
        })
    }

    fn put(&self, text: &str) -> Result<(), BootstrapError> {
        let text = std::ffi::CString::new(text).map_err(|_| BootstrapError::Pmix {
            call: "PMIx_Put",
            cause: "a NUL in a host name".into(),
        })?;
        let mut value = Value {
            kind: STRING,
            data: Data { string: text.as_ptr() },
        };
        // SAFETY: key and value are good for the call, which copies them.
        self.check("PMIx_Put", unsafe { (self.put)(GLOBAL, KEY.as_ptr(), &raw mut value) })?;
        // SAFETY: no arguments.
        self.check("PMIx_Commit", unsafe { (self.commit)() })
    }

    /// Of all processes, with the data that they put.
    fn fence(&self) -> Result<(), BootstrapError> {
        let mut info = Info {
            key: [0; 512],
            flags: 0,
            value: Value {
                kind: BOOL,
                data: Data { words: [0; 3] },
            },
        };
        info.key[..COLLECT_DATA.len()].copy_from_slice(COLLECT_DATA);
        info.value.data.flag = true;
        // SAFETY: no processes mean all; one directive.
        self.check("PMIx_Fence", unsafe {
            (self.fence)(std::ptr::null(), 0, &raw const info, 1)
        })
    }

    fn value(&self, of: &Proc, key: &CStr, kind: u16) -> Result<&Value, BootstrapError> {
        let mut value = std::ptr::null_mut::<Value>();
        // SAFETY: key and process are good for the call, which sets `value` to memory that nobody frees: it is small, and this
        // happens once.
        let status = unsafe { (self.get)(of, key.as_ptr(), std::ptr::null(), 0, &raw mut value) };
        self.check("PMIx_Get", status)?;
        // SAFETY: null, or as said.
        let value = unsafe { value.cast::<c_void>().cast::<Value>().as_ref() };
        value.filter(|v| v.kind == kind).ok_or_else(|| BootstrapError::Pmix {
            call: "PMIx_Get",
            cause: format!("{} is of another type than the standard says", key.to_string_lossy()),
        })
    }

    fn number(&self, of: &Proc, key: &CStr) -> Result<u32, BootstrapError> {
        // SAFETY: the type was compared.
        self.value(of, key, UINT32).map(|v| unsafe { v.data.uint32 })
    }

    fn text(&self, of: &Proc, key: &CStr) -> Result<String, BootstrapError> {
        let value = self.value(of, key, STRING)?;
        // SAFETY: the type was compared.
        let text = unsafe { value.data.string };
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: a string of PMIx's, which lives as long as the value.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rank_0_tells_is_understood() {
        let (listener, text) = listen(true).unwrap();
        let port = listener.local_port().unwrap();
        let (addresses, secret) = understand(&text, &this_node()).unwrap();
        assert_eq!(addresses, [format!("127.0.0.1:{port}")]);
        assert_eq!(secret.reveal().len(), 64);
        let far = "0123456789abcdef\n7\nn b\n10.0.0.1\nfd00::1";
        assert_eq!(understand(far, "other").unwrap().0, ["10.0.0.1:7", "[fd00::1]:7"]);
        assert!(understand("", "other").is_err());
        assert!(understand("0123456789abcdef\nx\n", "other").is_err());
    }
}
