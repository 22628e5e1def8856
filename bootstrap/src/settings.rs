//! Who this process is in its job, and where the others are: from the launcher's variables.

use crate::BootstrapError;
use crate::pmix;
use crate::secret::Secret;
use crate::socket::{Listener, RootAddress, is_loopback};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::time::Duration;

/// What told this process of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// [`Settings::new`].
    Program,
    /// SHMEM_RANK, SHMEM_SIZE, SHMEM_ROOT.
    Shmem,
    /// torchrun's variables.
    Torchrun,
    /// PMIx: Open MPI's mpirun, Slurm's srun.
    Pmix,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Program => "the program",
            Self::Shmem => "SHMEM_RANK",
            Self::Torchrun => "torchrun",
            Self::Pmix => "PMIx",
        })
    }
}

/// Who this process is in its job, where rank 0 is, and the secret that they share.
///
/// | variables, in the order in which they are looked for | set by |
/// |---|---|
/// | `SHMEM_RANK`, `SHMEM_SIZE`, `SHMEM_ROOT` (`host:port` or `unix:name`) | `shmem-run`; you |
/// | `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT` (and `LOCAL_WORLD_SIZE`) | torchrun |
/// | `PMIX_RANK`, `PMIX_NAMESPACE`: the rest comes from libpmix.so.2 | `mpirun`, `srun --mpi=pmix` |
///
/// | further variables | default | what |
/// |---|---|---|
/// | `SHMEM_SECRET` | | the job secret, 16 bytes or more, the same for all |
/// | `SHMEM_SECRET_FILE` | | or a file of mode 0600 that holds it |
/// | `SHMEM_JOIN_TIMEOUT` | 60 | seconds in which all processes must have come; 0: no limit |
/// | `SHMEM_ROOT_FD` | | rank 0: a listening TCP socket at SHMEM_ROOT's address that it was started with |
///
/// **Secrets.** A `host:port` needs one, always. PMIx: rank 0 makes one and hands it on by PMIx. torchrun on one node
/// (LOCAL_WORLD_SIZE = WORLD_SIZE, or MASTER_ADDR is `localhost` or 127.x) needs none: the processes meet at a Unix socket, not at the
/// network, and the system says that both sides are the same user's. On several nodes set SHMEM_SECRET for torchrun.
///
/// **Ports.** torchrun itself listens at MASTER_PORT, so rank 0 does at MASTER_PORT + 1; `SHMEM_ROOT=host:port` beside torchrun's
/// variables says otherwise.
///
/// ```
/// use shmem_bootstrap::{RootAddress, Secret, Settings};
/// use std::time::Duration;
///
/// // Without a launcher there is nothing to join.
/// assert_eq!(Settings::from_env()?.map(|s| s.size()), None);
///
/// let settings = Settings::new(1, 2, RootAddress::parse("node1:4000").unwrap())
///     .secret(Secret::random()?)
///     .limit(Duration::from_secs(10));
/// assert_eq!((settings.rank(), settings.size()), (1, 2));
/// # Ok::<(), shmem_bootstrap::BootstrapError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    rank: u32,
    size: u32,
    root: RootAddress,
    secret: Option<Secret>,
    limit: Duration,
    node: Option<String>,
    source: Source,
    listener: Option<Arc<Listener>>,
    /// Where rank 0 tells shmem-run who failed first.
    report: Option<Arc<File>>,
}

const SHMEM: &str = "SHMEM_RANK, SHMEM_SIZE, SHMEM_ROOT";
const TORCHRUN: &str = "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT";
const DEFAULT_LIMIT: Duration = Duration::from_mins(1);
/// The node's name must fit into the handshake.
const LONGEST_NODE: usize = 512;
/// Processes of one job: more than one server thread should serve.
const LARGEST: u32 = 1 << 16;

impl Settings {
    /// For a program that knows its job without variables. No secret, a limit of 60 s.
    pub fn new(rank: u32, size: u32, root: RootAddress) -> Self {
        Self {
            rank,
            size,
            root,
            secret: None,
            limit: DEFAULT_LIMIT,
            node: None,
            source: Source::Program,
            listener: None,
            report: None,
        }
    }

    /// What the launcher said; `None` without a launcher: all PEs are in this process. See [`Settings`] for the variables. Under PMIx
    /// this is collective the first time.
    ///
    /// # Errors
    /// [`Setting`](BootstrapError::Setting), [`MissingSetting`](BootstrapError::MissingSetting),
    /// [`SecretFile`](BootstrapError::SecretFile), [`WeakSecret`](BootstrapError::WeakSecret), [`Pmix`](BootstrapError::Pmix).
    pub fn from_env() -> Result<Option<Self>, BootstrapError> {
        Self::from_variables(&|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
    }

    fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, BootstrapError> {
        let given = |names: &[&'static str]| names.iter().copied().find(|n| get(n).is_some());
        let mut settings = if given(&["SHMEM_RANK", "SHMEM_SIZE"]).is_some() {
            Self::shmem(get)?
        } else if get("RANK").is_some()
            && get("WORLD_SIZE").is_some()
            && given(&["MASTER_ADDR", "MASTER_PORT"]).is_some()
        {
            Self::torchrun(get)?
        } else if get("PMIX_RANK").is_some() && get("PMIX_NAMESPACE").is_some() {
            let job = pmix::job(limit(get)?)?;
            let mut settings = Self::new(job.rank, job.size, RootAddress::Tcp(job.addresses.clone()));
            settings.secret = Some(job.secret.clone());
            settings.listener.clone_from(&job.listener);
            settings.source = Source::Pmix;
            settings
        } else if let Some(given) = given(&["SHMEM_ROOT"]) {
            return Err(BootstrapError::MissingSetting {
                name: "SHMEM_RANK",
                given,
                all: SHMEM,
            });
        } else {
            return Ok(None);
        };
        settings.limit = limit(get)?;
        settings.check()?;
        Ok(Some(settings))
    }

    fn shmem(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, BootstrapError> {
        let given = if get("SHMEM_RANK").is_some() {
            "SHMEM_RANK"
        } else {
            "SHMEM_SIZE"
        };
        let need = |name| {
            get(name).ok_or(BootstrapError::MissingSetting {
                name,
                given,
                all: SHMEM,
            })
        };
        let root = address("SHMEM_ROOT", &need("SHMEM_ROOT")?)?;
        let rank = number("SHMEM_RANK", &need("SHMEM_RANK")?)?;
        let size = number("SHMEM_SIZE", &need("SHMEM_SIZE")?)?;
        let mut settings = Self::new(rank, size, root);
        settings.source = Source::Shmem;
        settings.secret = secret(get)?;
        if let Some(fd) = get("SHMEM_ROOT_FD").filter(|_| rank == 0) {
            settings.listener = Some(Arc::new(listener("SHMEM_ROOT_FD", &fd)?));
        }
        if let Some(fd) = get("SHMEM_REPORT_FD").filter(|_| rank == 0) {
            settings.report = report("SHMEM_REPORT_FD", &fd)?.map(Arc::new);
        }
        Ok(settings)
    }

    fn torchrun(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, BootstrapError> {
        let need = |name| {
            get(name).ok_or(BootstrapError::MissingSetting {
                name,
                given: "RANK",
                all: TORCHRUN,
            })
        };
        let (rank, size) = (
            number("RANK", &need("RANK")?)?,
            number("WORLD_SIZE", &need("WORLD_SIZE")?)?,
        );
        let (host, port_text) = (need("MASTER_ADDR")?, need("MASTER_PORT")?);
        let port: u16 = number("MASTER_PORT", &port_text)?;
        let local: Option<u32> = get("LOCAL_WORLD_SIZE")
            .map(|v| number("LOCAL_WORLD_SIZE", &v))
            .transpose()?;
        let secret = secret(get)?;
        let root = match get("SHMEM_ROOT") {
            Some(text) => address("SHMEM_ROOT", &text)?,
            None if secret.is_none() && (local == Some(size) || is_loopback(&host)) => {
                // One job has one port at a time; the rest keeps apart what torchrun restarts.
                let run = get("TORCHELASTIC_RUN_ID").unwrap_or_default();
                let again = get("TORCHELASTIC_RESTART_COUNT").unwrap_or_default();
                let name: String = format!("shmem-{port}-{again}-{run}")
                    .chars()
                    .filter(char::is_ascii)
                    .take(100)
                    .collect();
                RootAddress::Unix(name)
            }
            None => {
                let next = port.checked_add(1).unwrap_or(port - 1);
                let bracketed = if host.contains(':') && !host.starts_with('[') {
                    format!("[{host}]")
                } else {
                    host
                };
                RootAddress::Tcp(vec![format!("{bracketed}:{next}")])
            }
        };
        let mut settings = Self::new(rank, size, root);
        settings.source = Source::Torchrun;
        settings.secret = secret;
        Ok(settings)
    }

    /// Sets the job secret.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Sets in what time all processes must have come; [`Duration::MAX`]: no limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the name of this node, instead of host name and boot id: processes with the same name share memory.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Processes in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where rank 0 is.
    pub fn root(&self) -> &RootAddress {
        &self.root
    }

    /// What told this process of its job.
    pub fn source(&self) -> Source {
        self.source
    }

    pub(crate) fn secret_value(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    pub(crate) fn report(&self) -> Option<Arc<File>> {
        self.report.clone()
    }

    pub(crate) fn limit_value(&self) -> Duration {
        self.limit
    }

    pub(crate) fn node_name(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// That the fields fit together.
    pub(crate) fn check(&self) -> Result<(), BootstrapError> {
        let (rank, size) = match self.source {
            Source::Torchrun => ("RANK", "WORLD_SIZE"),
            _ => ("SHMEM_RANK", "SHMEM_SIZE"),
        };
        let refuse = |name, value: u32, wanted| {
            Err(BootstrapError::Setting {
                name,
                value: value.to_string(),
                wanted,
            })
        };
        if self.size == 0 || self.size > LARGEST {
            return refuse(size, self.size, format!("1 to {LARGEST}"));
        }
        if self.rank >= self.size {
            return refuse(rank, self.rank, format!("less than {size}={}", self.size));
        }
        if let Some(node) = self.node.as_ref().filter(|n| n.len() > LONGEST_NODE) {
            let wanted = format!("at most {LONGEST_NODE} bytes");
            return Err(BootstrapError::Setting {
                name: "node",
                value: node.clone(),
                wanted,
            });
        }
        match (&self.root, &self.secret) {
            (RootAddress::Tcp(_), None) => Err(BootstrapError::NoSecret {
                root: self.root.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Rank 0: its listening socket.
    pub(crate) fn listen(&self) -> Result<Listener, BootstrapError> {
        let listener = match &self.listener {
            Some(given) => given.try_clone(),
            None => Listener::bind(&self.root),
        };
        listener.map_err(|e| BootstrapError::Listen {
            address: self.root.to_string(),
            cause: e.to_string(),
        })
    }
}

fn number<T: std::str::FromStr>(name: &'static str, text: &str) -> Result<T, BootstrapError> {
    text.trim().parse().map_err(|_| BootstrapError::Setting {
        name,
        value: text.into(),
        wanted: "a number".into(),
    })
}

fn address(name: &'static str, text: &str) -> Result<RootAddress, BootstrapError> {
    let wanted = "host:port, or unix: and a name of at most 100 bytes";
    RootAddress::parse(text).ok_or(BootstrapError::Setting {
        name,
        value: text.into(),
        wanted: wanted.into(),
    })
}

fn secret(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Secret>, BootstrapError> {
    match (get("SHMEM_SECRET"), get("SHMEM_SECRET_FILE")) {
        (Some(text), _) => Secret::new(text).map(Some),
        (None, Some(path)) => Secret::from_file(path).map(Some),
        (None, None) => Ok(None),
    }
}

fn limit(get: &dyn Fn(&str) -> Option<String>) -> Result<Duration, BootstrapError> {
    const NAME: &str = "SHMEM_JOIN_TIMEOUT";
    let Some(text) = get(NAME) else {
        return Ok(DEFAULT_LIMIT);
    };
    let wanted = "seconds, 0 for no limit".into();
    match text.parse().ok().map(Duration::try_from_secs_f64) {
        Some(Ok(Duration::ZERO)) => Ok(Duration::MAX),
        Some(Ok(limit)) => Ok(limit),
        _ => Err(BootstrapError::Setting {
            name: NAME,
            value: text,
            wanted,
        }),
    }
}

/// The listening socket that the process was started with.
fn listener(name: &'static str, text: &str) -> Result<Listener, BootstrapError> {
    let refuse = |cause: String| BootstrapError::Setting {
        name,
        value: text.into(),
        wanted: format!("the number of a listening TCP socket that the process was started with ({cause})"),
    };
    let fd = inherited(number(name, text)?).map_err(refuse)?;
    Listener::from_fd(fd).map_err(|e| refuse(e.to_string()))
}

/// The pipe to shmem-run. A process that has only its variable, from a process of the job that started it, has nothing to report.
fn report(name: &'static str, text: &str) -> Result<Option<File>, BootstrapError> {
    let file = inherited(number(name, text)?).ok().map(File::from);
    Ok(file.filter(|f| f.metadata().is_ok_and(|about| about.file_type().is_fifo())))
}

/// A copy of a descriptor that the process was started with. The original stays open, for a later job of this process, but is not handed
/// on to its children.
fn inherited(number: i32) -> Result<OwnedFd, String> {
    if number <= 2 {
        return Err("0 to 2 are input and output".into());
    }
    // SAFETY: the number is not -1; if nothing is open there, the calls below say so, and nothing else is done with it.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| e.to_string())?;
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC).map_err(|e| e.to_string())?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: (&str, &str) = ("SHMEM_SECRET", "0123456789abcdef");

    fn from(variables: &[(&str, &str)]) -> Result<Option<Settings>, BootstrapError> {
        Settings::from_variables(&|name| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_string())
        })
    }

    fn torchrun(more: &[(&'static str, &'static str)]) -> Result<Settings, BootstrapError> {
        let mut all = vec![
            ("RANK", "1"),
            ("WORLD_SIZE", "4"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
        ];
        all.retain(|(name, _)| more.iter().all(|(n, _)| n != name));
        all.extend(more);
        from(&all).map(Option::unwrap)
    }

    #[test]
    fn without_a_launcher_there_is_no_job() {
        assert!(from(&[]).unwrap().is_none());
        assert!(from(&[("RANK", "3"), SECRET]).unwrap().is_none());
    }

    #[test]
    fn own_variables_come_first() {
        let own = [
            ("SHMEM_RANK", "2"),
            ("SHMEM_SIZE", "3"),
            ("SHMEM_ROOT", "h:7"),
            SECRET,
            ("RANK", "0"),
            ("WORLD_SIZE", "9"),
        ];
        let settings = from(&own).unwrap().unwrap();
        assert_eq!((settings.rank, settings.size, settings.source), (2, 3, Source::Shmem));
        assert_eq!(settings.root, RootAddress::Tcp(vec!["h:7".into()]));
        for left_out in 0..3 {
            let mut some = own.to_vec();
            some.remove(left_out);
            assert!(
                matches!(from(&some), Err(BootstrapError::MissingSetting { .. })),
                "{left_out}"
            );
        }
    }

    #[test]
    fn torchrun_on_one_node_needs_no_secret_and_no_network() {
        let unix = RootAddress::Unix("shmem-29500--".into());
        assert_eq!(torchrun(&[("LOCAL_WORLD_SIZE", "4")]).unwrap().root, unix);
        assert_eq!(torchrun(&[("MASTER_ADDR", "127.0.0.1")]).unwrap().root, unix);
        let error = torchrun(&[("LOCAL_WORLD_SIZE", "2")]).unwrap_err();
        assert_eq!(
            error,
            BootstrapError::NoSecret {
                root: "node1:29501".into()
            }
        );
        let two = torchrun(&[("LOCAL_WORLD_SIZE", "2"), SECRET]).unwrap();
        assert_eq!((two.rank, two.root), (1, RootAddress::Tcp(vec!["node1:29501".into()])));
        let six = torchrun(&[("MASTER_ADDR", "fe80::1"), ("MASTER_PORT", "65535"), SECRET]).unwrap();
        assert_eq!(six.root, RootAddress::Tcp(vec!["[fe80::1]:65534".into()]));
        let other = torchrun(&[("SHMEM_ROOT", "node2:9"), SECRET]).unwrap();
        assert_eq!(other.root, RootAddress::Tcp(vec!["node2:9".into()]));
    }

    #[test]
    fn bad_values_are_named() {
        let own = |name, value| {
            let mut all = vec![("SHMEM_RANK", "0"), ("SHMEM_SIZE", "3"), ("SHMEM_ROOT", "h:7"), SECRET];
            all.retain(|(n, _)| *n != name);
            all.push((name, value));
            from(&all).unwrap_err().to_string()
        };
        assert_eq!(
            own("SHMEM_RANK", "3"),
            "SHMEM_RANK=\"3\": less than SHMEM_SIZE=3 is expected"
        );
        assert!(own("SHMEM_RANK", "-1").contains("a number"));
        assert!(own("SHMEM_SIZE", "0").contains("1 to 65536"));
        assert!(own("SHMEM_ROOT", "h").contains("host:port"));
        assert!(own("SHMEM_ROOT", "h:99999").contains("host:port"));
        assert!(own("SHMEM_SECRET", "abc").contains("3 bytes"));
        assert!(own("SHMEM_JOIN_TIMEOUT", "soon").contains("seconds"));
        assert!(own("SHMEM_ROOT_FD", "1").contains("listening TCP socket"));
        assert!(own("SHMEM_ROOT_FD", "12345").contains("listening TCP socket"));
    }
}
