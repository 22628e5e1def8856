//! Real adapters: the [`Calls`] over rdma-core's libibverbs and libmlx5, loaded at run time, so that programs start on
//! machines without them.
//!
//! | file | what it holds |
//! |---|---|
//! | [`sys`] | C structures and function types |
//! | `library` | loading |
//! | `device` | an opened adapter |

mod device;
mod library;
pub mod sys;

use crate::calls::{Adapter, Calls, Device, Gid, GidKind, Link, Port};
use crate::error::IbgdaError;
use library::Functions;
use shmem_mlx5::cmd::queue_pair::Mtu;
use std::ffi::{CStr, OsStr};
use std::io;
use std::sync::Arc;

/// Ports that an adapter may have.
const MOST_PORTS: u8 = 8;
/// Entries of GID tables, of all ports together, that are looked at.
const MOST_GIDS: usize = 1024;

/// The adapters of this machine.
#[derive(Clone, Debug)]
pub struct Verbs {
    functions: Arc<Functions>,
}

impl Verbs {
    /// Loads `libibverbs.so.1` and `libmlx5.so.1`.
    ///
    /// # Errors
    /// [`IbgdaError::Library`], [`IbgdaError::Function`].
    pub fn load() -> Result<Self, IbgdaError> {
        Ok(Self {
            functions: Arc::new(Functions::load(None, None)?),
        })
    }

    /// Loads them from files of other names.
    ///
    /// ```
    /// use shmem_ibgda::verbs::Verbs;
    /// let error = Verbs::load_from("/nowhere/libibverbs.so", "/nowhere/libmlx5.so").unwrap_err();
    /// assert!(error.to_string().contains("install rdma-core"));
    /// ```
    ///
    /// # Errors
    /// [`IbgdaError::Library`], [`IbgdaError::Function`].
    pub fn load_from(ibverbs: impl AsRef<OsStr>, mlx5: impl AsRef<OsStr>) -> Result<Self, IbgdaError> {
        let functions = Functions::load(Some(ibverbs.as_ref()), Some(mlx5.as_ref()))?;
        Ok(Self {
            functions: Arc::new(functions),
        })
    }

    /// Calls `each` with every mlx5 device and its name until it returns something.
    fn devices<T>(
        &self,
        mut each: impl FnMut(*mut sys::Device, String) -> Result<Option<T>, IbgdaError>,
    ) -> Result<Option<T>, IbgdaError> {
        let mut count = 0;
        // SAFETY: a place for the count.
        let list = unsafe { (self.functions.ibv_get_device_list)(&raw mut count) };
        if list.is_null() {
            return match io::Error::last_os_error() {
                // What it says where the kernel has no such modules.
                e if e.raw_os_error() == Some(ENOSYS) => Ok(None),
                cause => Err(IbgdaError::Call {
                    adapter: "any adapter".into(),
                    call: "ibv_get_device_list",
                    cause,
                    advice: "read permission on /sys/class/infiniband_verbs is needed",
                }),
            };
        }
        let mut found = Ok(None);
        for i in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: below the count that came with the list, which is not freed yet.
            let device = unsafe { *list.add(i) };
            // SAFETY: as above.
            let (is_mlx5, name) = unsafe {
                (
                    (self.functions.mlx5dv_is_supported)(device),
                    (self.functions.ibv_get_device_name)(device),
                )
            };
            if !is_mlx5 || name.is_null() {
                continue;
            }
            // SAFETY: not null: the device's name, which ends with a zero.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            found = each(device, name);
            if !matches!(found, Ok(None)) {
                break;
            }
        }
        // SAFETY: the list from above; devices that were opened stay so.
        unsafe { (self.functions.ibv_free_device_list)(list) };
        found
    }

    fn describe(&self, device: *mut sys::Device, name: String) -> Result<Adapter, IbgdaError> {
        // SAFETY: the device is one of a list that is not freed yet.
        let context = unsafe { (self.functions.ibv_open_device)(device) };
        if context.is_null() {
            return Err(denied(name, "ibv_open_device"));
        }
        let gids = self.gids(context);
        let ports = (1..=MOST_PORTS)
            .map_while(|number| self.port(context, number, &gids))
            .collect();
        // SAFETY: opened above, and not used any more.
        unsafe { (self.functions.ibv_close_device)(context) };
        let path = std::fs::canonicalize(format!("/sys/class/infiniband/{name}/device"));
        Ok(Adapter {
            path: path.map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
            name,
            ports,
        })
    }

    fn gids(&self, context: *mut sys::Context) -> Vec<sys::GidEntry> {
        let mut entries = vec![sys::GidEntry::default(); MOST_GIDS];
        // SAFETY: an open device, and room for as many entries of that size.
        let count = unsafe {
            (self.functions._ibv_query_gid_table)(
                context,
                entries.as_mut_ptr(),
                entries.len(),
                0,
                size_of::<sys::GidEntry>(),
            )
        };
        // An error leaves the table empty: the port is then told to lack an address.
        entries.truncate(usize::try_from(count).unwrap_or(0));
        entries
    }

    /// None where there is no such port.
    fn port(&self, context: *mut sys::Context, number: u8, gids: &[sys::GidEntry]) -> Option<Port> {
        let mut attr = sys::PortAttr::default();
        // SAFETY: an open device, and a place for the answer that is as long as any version's.
        let status = unsafe { (self.functions.ibv_query_port)(context, number, &raw mut attr) };
        if status != 0 {
            return None;
        }
        let gids = gids.iter().filter(|entry| entry.port_num == u32::from(number));
        let gids = gids.filter_map(|entry| {
            let kind = match entry.gid_type {
                sys::GID_IB => GidKind::InfiniBand,
                sys::GID_ROCE_V1 => GidKind::RoceV1,
                sys::GID_ROCE_V2 => GidKind::RoceV2,
                _ => return None,
            };
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&entry.gid[0].to_ne_bytes());
            bytes[8..].copy_from_slice(&entry.gid[1].to_ne_bytes());
            Some(Gid {
                // The address vector has 8 bits for it.
                index: u8::try_from(entry.gid_index).ok()?,
                kind,
                bytes,
            })
        });
        Some(Port {
            number,
            link: if attr.link_layer == sys::LINK_ETHERNET {
                Link::Ethernet
            } else {
                Link::InfiniBand
            },
            active: attr.state == sys::PORT_ACTIVE,
            lid: attr.lid,
            mtu: match attr.active_mtu {
                1 => Mtu::Bytes256,
                2 => Mtu::Bytes512,
                3 => Mtu::Bytes1024,
                4 => Mtu::Bytes2048,
                _ => Mtu::Bytes4096,
            },
            partitions: attr.pkey_tbl_len,
            gids: gids.collect(),
        })
    }
}

/// `ENOSYS` of Linux.
const ENOSYS: i32 = 38;

/// A device that can't be opened.
fn denied(adapter: String, call: &'static str) -> IbgdaError {
    IbgdaError::Call {
        adapter,
        call,
        cause: io::Error::last_os_error(),
        advice: "read and write permission on /dev/infiniband/uverbs* is needed (`ls -l /dev/infiniband`; in a container: `--device=/dev/infiniband`)",
    }
}

impl Calls for Verbs {
    fn adapters(&self) -> Result<Vec<Adapter>, IbgdaError> {
        let (mut adapters, mut failed) = (Vec::new(), None);
        self.devices(|device, name| {
            match self.describe(device, name) {
                Ok(adapter) => adapters.push(adapter),
                // Others may be open to this user.
                Err(error) => failed = failed.take().or(Some(error)),
            }
            Ok(None::<()>)
        })?;
        match failed {
            Some(error) if adapters.is_empty() => Err(error),
            _ => Ok(adapters),
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn Device>, IbgdaError> {
        let opened = self.devices(|device, seen| {
            if seen != name {
                return Ok(None);
            }
            device::Opened::open(&self.functions, device, seen).map(Some)
        })?;
        match opened {
            Some(opened) => Ok(Box::new(opened)),
            None => Err(IbgdaError::NoAdapter),
        }
    }
}
