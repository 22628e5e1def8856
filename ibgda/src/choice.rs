//! Which adapter and port: allowed, active, nearest to the GPU. Pure functions over what the machine lists.

use crate::calls::{Adapter, Gid, GidKind, Link, Port};
use crate::error::IbgdaError;
use crate::settings::Settings;

/// Where a PCI device is: its folder below `/sys/devices`, which names the bridges on the way. None where the system
/// does not know it.
///
/// ```
/// assert_eq!(shmem_ibgda::choice::pci_path("no such device"), None);
/// ```
pub fn pci_path(bus_id: &str) -> Option<String> {
    // CUDA says the domain with eight digits or four and in capitals, sysfs with four and small letters.
    let id = bus_id.to_ascii_lowercase();
    let (domain, rest) = id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let plain = rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
    if !plain {
        return None;
    }
    let path = std::fs::canonicalize(format!("/sys/bus/pci/devices/{domain:04x}:{rest}")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// How many bridges two devices have in common, counted from the root; the more, the nearer. The last part of each path
/// is the device itself.
///
/// ```
/// use shmem_ibgda::choice::common_bridges;
/// let gpu = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0";
/// let near = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:01.0";
/// let far = "/sys/devices/pci0000:3a/0000:3a:02.0/0000:3d:00.0";
/// assert!(common_bridges(gpu, near) > common_bridges(gpu, far));
/// ```
pub fn common_bridges(a: &str, b: &str) -> usize {
    let parts = |path: &str| {
        let mut parts: Vec<_> = path.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect();
        parts.pop();
        parts
    };
    let bridge = |part: &&String| part.contains(':');
    let (a, b) = (parts(a), parts(b));
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    a[..same].iter().filter(bridge).count()
}

/// An entry of `SHMEM_HCA`.
struct Wanted<'a> {
    name: &'a str,
    port: Option<u8>,
}

fn wanted(list: &str) -> Result<Vec<Wanted<'_>>, IbgdaError> {
    let refuse = |expected: &str| IbgdaError::Setting {
        name: "SHMEM_HCA",
        value: list.into(),
        expected: expected.into(),
    };
    list.split(',')
        .map(|entry| {
            let (name, port) = match entry.trim().split_once(':') {
                None => (entry.trim(), None),
                Some((name, port)) => match port.parse() {
                    Ok(port) if port > 0 => (name, Some(port)),
                    _ => return Err(refuse("a port is a number from 1 on, as in mlx5_0:1")),
                },
            };
            if name.is_empty() {
                return Err(refuse("names of adapters with commas between, as in mlx5_0,mlx5_1:1"));
            }
            Ok(Wanted { name, port })
        })
        .collect()
}

fn name(adapter: &Adapter, port: &Port) -> String {
    format!("{}:{}", adapter.name, port.number)
}

/// The adapter and port to use: indices into `adapters` and its `ports`.
///
/// # Errors
/// [`IbgdaError::NoAdapter`], [`IbgdaError::Setting`] where `SHMEM_HCA` names none, [`IbgdaError::NoActivePort`].
pub fn choose(adapters: &[Adapter], settings: &Settings) -> Result<(usize, usize), IbgdaError> {
    if adapters.is_empty() {
        return Err(IbgdaError::NoAdapter);
    }
    let list = settings.hca.as_deref();
    let allowed = list.map(wanted).transpose()?;
    let exists = |w: &Wanted<'_>| {
        adapters
            .iter()
            .any(|a| a.name == w.name && w.port.is_none_or(|n| a.ports.iter().any(|p| p.number == n)))
    };
    if let Some(missing) = allowed.iter().flatten().find(|w| !exists(w)) {
        let all = adapters.iter().flat_map(|a| a.ports.iter().map(|p| name(a, p)));
        return Err(IbgdaError::Setting {
            name: "SHMEM_HCA",
            value: list.unwrap_or_default().into(),
            expected: format!(
                "no adapter or port {}{}; there are {}",
                missing.name,
                missing.port.map(|port| format!(":{port}")).unwrap_or_default(),
                all.collect::<Vec<_>>().join(", ")
            ),
        });
    }
    let is_allowed = |adapter: &Adapter, port: &Port| {
        allowed.as_ref().is_none_or(|list| {
            list.iter()
                .any(|w| w.name == adapter.name && w.port.is_none_or(|n| n == port.number))
        })
    };
    let mut candidates = Vec::new();
    for (a, adapter) in adapters.iter().enumerate() {
        for (p, port) in adapter.ports.iter().enumerate() {
            if is_allowed(adapter, port) {
                candidates.push((a, p));
            }
        }
    }
    let near = |&(a, _): &(usize, usize)| {
        settings
            .gpu
            .as_ref()
            .map_or(0, |gpu| common_bridges(gpu, &adapters[a].path))
    };
    let active = |&&(a, p): &&(usize, usize)| adapters[a].ports[p].active;
    let best = candidates.iter().filter(active).map(near).max();
    let nearest: Vec<_> = candidates
        .iter()
        .filter(active)
        .filter(|c| Some(near(c)) == best)
        .collect();
    if nearest.is_empty() {
        let names = candidates
            .iter()
            .map(|&(a, p)| name(&adapters[a], &adapters[a].ports[p]));
        let without = adapters.iter().filter(|a| a.ports.is_empty());
        let without = without.map(|a| format!("{} (which has no port)", a.name));
        return Err(IbgdaError::NoActivePort {
            candidates: names.chain(without).collect::<Vec<_>>().join(", "),
        });
    }
    Ok(*nearest[settings.turn as usize % nearest.len()])
}

/// Whether the port's table of partition keys has this entry; it always has the first.
///
/// # Errors
/// [`IbgdaError::Setting`].
pub fn partition(adapter: &str, port: &Port, index: u16) -> Result<(), IbgdaError> {
    let last = port.partitions.saturating_sub(1);
    if index <= last {
        return Ok(());
    }
    Err(IbgdaError::Setting {
        name: "SHMEM_PARTITION",
        value: index.to_string(),
        expected: format!(
            "{adapter} port {} has partition keys 0 to {last}; /sys/class/infiniband/*/ports/*/pkeys lists them",
            port.number
        ),
    })
}

/// The entry of the port's GID table to use.
///
/// # Errors
/// [`IbgdaError::NoGid`].
pub fn gid(adapter: &str, port: &Port, index: Option<u8>) -> Result<Gid, IbgdaError> {
    let kind = match port.link {
        Link::InfiniBand => GidKind::InfiniBand,
        Link::Ethernet => GidKind::RoceV2,
    };
    let refuse = |wanted: String, advice| IbgdaError::NoGid {
        adapter: adapter.into(),
        port: port.number,
        wanted,
        advice,
    };
    let usable = port.gids.iter().filter(|g| g.kind == kind);
    if let Some(index) = index {
        return usable.copied().find(|g| g.index == index).ok_or_else(|| {
            refuse(
                format!("{kind:?} address at SHMEM_GID_INDEX={index}"),
                "`show_gids`, or /sys/class/infiniband/*/ports/*/gid_attrs/types, lists them",
            )
        });
    }
    // An IPv4 address is written as ::ffff:a.b.c.d. Link-local addresses come last: routers do not know them.
    let rank = |g: &&Gid| {
        if g.bytes[..10] == [0; 10] && g.bytes[10..12] == [0xff; 2] {
            0
        } else if g.bytes[0] == 0xfe && g.bytes[1] & 0xc0 == 0x80 {
            2
        } else {
            1
        }
    };
    let advice = match kind {
        GidKind::InfiniBand => "start the subnet manager (`opensm`)",
        _ => "give the network interface of this port an IP address (`ip addr`)",
    };
    usable
        .copied()
        .min_by_key(|g| (rank(&g), g.index))
        .ok_or_else(|| refuse(format!("{kind:?} address"), advice))
}
