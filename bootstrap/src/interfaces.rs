//! The addresses at which other nodes may reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of all interfaces that are up, but the loopback and addresses that are good on one link only; IPv4 first.
#[allow(
    clippy::cast_ptr_alignment,
    reason = "the system aligns a socket address for its family"
)]
pub(crate) fn addresses() -> Vec<String> {
    let mut found = Vec::new();
    let mut list = std::ptr::null_mut();
    // SAFETY: sets `list` to a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut next = list;
    // SAFETY: null at the end, else an entry of the list.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_addr.is_null() || entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: not null; its family says which address it is.
        let ip: IpAddr = match i32::from(unsafe { (*entry.ifa_addr).sa_family }) {
            // SAFETY: of this family.
            libc::AF_INET => Ipv4Addr::from(u32::from_be(
                unsafe { *entry.ifa_addr.cast::<libc::sockaddr_in>() }.sin_addr.s_addr,
            ))
            .into(),
            // SAFETY: of this family.
            libc::AF_INET6 => Ipv6Addr::from(
                unsafe { *entry.ifa_addr.cast::<libc::sockaddr_in6>() }
                    .sin6_addr
                    .s6_addr,
            )
            .into(),
            _ => continue,
        };
        let link_only = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        if !ip.is_loopback() && !link_only {
            found.push(ip);
        }
    }
    // SAFETY: the list of above; nothing of it is kept.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(IpAddr::is_ipv6);
    found.iter().map(IpAddr::to_string).collect()
}
