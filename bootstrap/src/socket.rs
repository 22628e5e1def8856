//! Connections over TCP and over Unix sockets, as one type.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Where rank 0 is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RootAddress {
    /// `host:port`, one or several, of which one leads to rank 0. Needs a [`Secret`](crate::Secret).
    Tcp(Vec<String>),
    /// `unix:name`: an abstract Unix socket, on one node. Nothing is left of it when its process ends. Without a secret, both
    /// sides check that the other runs as the same user.
    Unix(String),
}

impl RootAddress {
    /// Reads `host:port`, `[v6]:port` or `unix:name`.
    ///
    /// ```
    /// use shmem_bootstrap::RootAddress;
    ///
    /// assert_eq!(RootAddress::parse("unix:job-7"), Some(RootAddress::Unix("job-7".into())));
    /// assert_eq!(RootAddress::parse("node1:4000"), Some(RootAddress::Tcp(vec!["node1:4000".into()])));
    /// assert_eq!(RootAddress::parse("node1"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        // What fits into a socket address, after the NUL that makes the name abstract.
        const LONGEST_NAME: usize = 100;
        if let Some(name) = text.strip_prefix("unix:") {
            return (!name.is_empty() && name.len() <= LONGEST_NAME).then(|| Self::Unix(name.into()));
        }
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        (!host.is_empty() && port != 0).then(|| Self::Tcp(vec![text.into()]))
    }
}

impl std::fmt::Display for RootAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(addresses) => f.write_str(&addresses.join(" or ")),
            Self::Unix(name) => write!(f, "unix:{name}"),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where connections come in.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens at the address. A host that means only this machine (`localhost`, `127.x`, `::1`) is listened at alone; for other names
    /// every interface is, because the name often has another address here than elsewhere (`127.0.1.1` in Debian's hosts file).
    pub(crate) fn bind(address: &RootAddress) -> io::Result<Self> {
        match address {
            RootAddress::Unix(name) => UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?).map(Self::Unix),
            RootAddress::Tcp(addresses) => {
                let text = addresses.first().ok_or(io::ErrorKind::InvalidInput)?;
                let (host, port) = text.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
                if is_loopback(host) {
                    return TcpListener::bind(text.as_str()).map(Self::Tcp);
                }
                Self::bind_everywhere(port.parse().map_err(|_| io::ErrorKind::InvalidInput)?)
            }
        }
    }

    /// At every interface; port 0 is any free one. The socket for IPv6 takes IPv4 as well, where there is IPv6.
    pub(crate) fn bind_everywhere(port: u16) -> io::Result<Self> {
        TcpListener::bind(("::", port))
            .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
            .map(Self::Tcp)
    }

    /// A listening TCP socket that this process was started with.
    pub(crate) fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        if !sockopt::socket_acceptconn(&fd)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a listening socket"));
        }
        Ok(Self::Tcp(fd.into()))
    }

    /// The same socket again, closed on its own.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(l) => Self::Tcp(l.try_clone()?),
            Self::Unix(l) => Self::Unix(l.try_clone()?),
        })
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(l) => l.set_nonblocking(true),
            Self::Unix(l) => l.set_nonblocking(true),
        }
    }

    /// A connection, if one waits, and who it is as far as the system knows.
    pub(crate) fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Self::Tcp(l) => l.accept().map(|(s, from)| (Socket::Tcp(s), from.to_string())),
            Self::Unix(l) => {
                let socket = Socket::Unix(l.accept()?.0);
                let from = socket
                    .other_user()
                    .map_or_else(|| "unknown user".into(), |user| format!("user {user}"));
                Ok((socket, from))
            }
        }
    }

    pub(crate) fn local_port(&self) -> io::Result<u16> {
        match self {
            Self::Tcp(l) => Ok(l.local_addr()?.port()),
            Self::Unix(_) => Ok(0),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(l) => l.as_fd(),
            Self::Unix(l) => l.as_fd(),
        }
    }
}

/// Whether a host, as it is written, means this machine only.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl Socket {
    /// Tries each address once, until `deadline`.
    pub(crate) fn connect(address: &RootAddress, deadline: Instant) -> io::Result<Self> {
        // One address that swallows packets must not use up the time of the next.
        const ONE_ATTEMPT: Duration = Duration::from_secs(2);
        let left = || {
            deadline
                .saturating_duration_since(Instant::now())
                .clamp(Duration::from_millis(1), ONE_ATTEMPT)
        };
        match address {
            RootAddress::Unix(name) => {
                let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                // Bounds the wait for a place in a full backlog, too.
                sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(left()))?;
                rustix::net::connect(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
                Ok(Self::Unix(fd.into()))
            }
            RootAddress::Tcp(names) => {
                let mut error = io::Error::from(io::ErrorKind::AddrNotAvailable);
                for name in names {
                    let found = match name.to_socket_addrs() {
                        Ok(found) => found,
                        Err(e) => {
                            error = e;
                            continue;
                        }
                    };
                    for ip in found {
                        match TcpStream::connect_timeout(&ip, left()) {
                            Ok(stream) => return Ok(Self::Tcp(stream)),
                            Err(e) => error = e,
                        }
                    }
                }
                Err(error)
            }
        }
    }

    /// For small messages that are waited for, and so that a machine that vanished is noticed.
    pub(crate) fn tune(&self) -> io::Result<()> {
        const QUIET: Duration = Duration::from_secs(5);
        const BETWEEN: Duration = Duration::from_secs(2);
        if let Self::Tcp(s) = self {
            s.set_nodelay(true)?;
            sockopt::set_socket_keepalive(s, true)?;
            sockopt::set_tcp_keepidle(s, QUIET)?;
            sockopt::set_tcp_keepintvl(s, BETWEEN)?;
            sockopt::set_tcp_keepcnt(s, 3)?;
        }
        Ok(())
    }

    /// The user of the other side; unknown over TCP.
    pub(crate) fn other_user(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(s) => sockopt::socket_peercred(s).ok().map(|c| c.uid.as_raw()),
        }
    }

    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_nonblocking(true),
            Self::Unix(s) => s.set_nonblocking(true),
        }
    }

    pub(crate) fn set_read_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_read_timeout(limit),
            Self::Unix(s) => s.set_read_timeout(limit),
        }
    }

    pub(crate) fn set_write_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_write_timeout(limit),
            Self::Unix(s) => s.set_write_timeout(limit),
        }
    }

    /// Ends both directions, which also wakes whoever waits for bytes.
    pub(crate) fn shutdown(&self) {
        // It fails where the other side has ended it already.
        let _ = match self {
            Self::Tcp(s) => s.shutdown(Shutdown::Both),
            Self::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).read(buffer),
            Socket::Unix(s) => (&mut &*s).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).write(bytes),
            Socket::Unix(s) => (&mut &*s).write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
