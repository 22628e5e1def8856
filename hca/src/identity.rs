//! How emulated adapters are called on the network: by numbers that follow from theirs.

use crate::state::Adapter;

/// How an adapter's port is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Link {
    /// By InfiniBand.
    #[default]
    InfiniBand,
    /// By Ethernet: RoCE v2.
    Ethernet,
}

/// What others call an adapter's port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Local identifier, on InfiniBand.
    pub lid: u16,
    /// MAC address, on Ethernet.
    pub mac: [u8; 6],
    /// The one entry of its GID table on InfiniBand, index 0.
    pub gid: [u8; 16],
    /// Entry 1 on Ethernet: its link-local address, for RoCE v2. Entry 0 is the same for v1.
    pub link_local: [u8; 16],
    /// Entry 3 on Ethernet: its IPv4 address, for RoCE v2. Entry 2 is the same for v1.
    pub ipv4: [u8; 16],
}

/// Entries of a GID table on Ethernet that RoCE v2 may use: link-local, IPv4.
pub const ROCE_V2: [u8; 2] = [1, 3];

impl Adapter {
    /// What others call it.
    ///
    /// ```
    /// use shmem_hca::{Config, Fabric, Ram};
    /// let mut fabric = Fabric::new(Ram::new(), Config::strict(0));
    /// let (one, two) = (fabric.add_adapter(), fabric.add_adapter());
    /// assert_eq!((one.identity().lid, two.identity().lid), (1, 2));
    /// ```
    pub fn identity(self) -> Identity {
        let number = self.0 as u32 + 1;
        let [_, a, b, c] = number.to_be_bytes();
        // Locally administered, as a MAC address.
        let mac = [0x02, 0x00, 0x5e, a, b, c];
        let interface = [0x00, 0x00, 0x5e, 0xff, 0xfe, a, b, c];
        let local = std::array::from_fn(|i| match i {
            0 => 0xfe,
            1 => 0x80,
            8.. => interface[i - 8],
            _ => 0,
        });
        let ipv4 = std::array::from_fn(|i| match i {
            10 | 11 => 0xff,
            12 => 10,
            13.. => [a, b, c][i - 13],
            _ => 0,
        });
        Identity {
            lid: number as u16,
            mac,
            gid: local,
            link_local: local,
            ipv4,
        }
    }
}
