//! Adapters that are not there: the [`Calls`] over an emulator's fabric. Addresses of this process are its places of
//! `Space(0)`; commands go to the emulated firmware.

use crate::calls::{Adapter, Calls, Device, Gid, GidKind, Link, Object, Port, RegisterPage};
use crate::error::IbgdaError;
use crate::memory::Memory;
use shmem_hca::{Fabric, Place, Space, firmware, identity};
use shmem_mlx5::cmd::mkey::CreateKey;
use shmem_mlx5::cmd::queue_pair::Mtu;
use shmem_mlx5::cmd::{self, domain};
use shmem_mlx5::doorbell::REGISTER_OFFSET;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where pages of registers lie that are not memory: no address of a process, so that a store that nobody intercepts
/// fails at once.
const INTERCEPTED: u64 = 1 << 56;
const PAGE: u64 = 4096;
/// Bits of a page's number in its address.
const PAGE_BITS: u32 = 20;

/// Where pages of registers come from that are memory: an address of 4096 bytes of zeros, or None where there is no
/// more.
pub type PageMemory = Arc<Mutex<dyn FnMut() -> Option<u64> + Send>>;

/// A machine with emulated adapters, all of one fabric. Clones are the same machine.
///
/// ```
/// use shmem_hca::{Config, Fabric, Ram};
/// use shmem_ibgda::{Calls, Emulated, Endpoint, Link, Settings};
/// use std::sync::{Arc, Mutex};
///
/// let fabric = Arc::new(Mutex::new(Fabric::new(Ram::new(), Config::strict(1))));
/// let machine = Emulated::new(fabric, 2, Link::Ethernet);
/// let settings = Settings { hca: Some("mlx5_1".into()), ..Settings::default() };
/// let endpoint = Endpoint::open(&machine, &settings)?;
/// assert_eq!(endpoint.adapter().name, "mlx5_1");
/// # Ok::<(), shmem_ibgda::IbgdaError>(())
/// ```
pub struct Emulated<M> {
    fabric: Arc<Mutex<Fabric<M>>>,
    adapters: Vec<(shmem_hca::Adapter, Adapter)>,
    pages: Option<PageMemory>,
}

impl<M> Clone for Emulated<M> {
    fn clone(&self) -> Self {
        Self {
            fabric: self.fabric.clone(),
            adapters: self.adapters.clone(),
            pages: self.pages.clone(),
        }
    }
}

fn lock<M>(fabric: &Mutex<Fabric<M>>) -> MutexGuard<'_, Fabric<M>> {
    // Each of its functions leaves it whole.
    fabric.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: shmem_hca::Memory + Send + 'static> Emulated<M> {
    /// Adds so many adapters to the fabric: `mlx5_0` and on, each with one port. Their registers are no memory: who
    /// stores to one calls [`Emulated::store`].
    pub fn new(fabric: Arc<Mutex<Fabric<M>>>, adapters: usize, link: Link) -> Self {
        let mut locked = lock(&fabric);
        let adapters = (0..adapters)
            .map(|i| {
                let adapter = locked.add_adapter();
                locked.set_link(
                    adapter,
                    match link {
                        Link::InfiniBand => shmem_hca::Link::InfiniBand,
                        Link::Ethernet => shmem_hca::Link::Ethernet,
                    },
                );
                (adapter, describe(adapter, i, link))
            })
            .collect();
        drop(locked);
        Self {
            fabric,
            adapters,
            pages: None,
        }
    }

    /// The same machine with registers in memory, which [`Fabric::poll`] looks at. The fabric's memory must have these
    /// pages.
    #[must_use]
    pub fn with_pages(mut self, pages: PageMemory) -> Self {
        self.pages = Some(pages);
        self
    }

    /// The fabric.
    pub fn fabric(&self) -> &Arc<Mutex<Fabric<M>>> {
        &self.fabric
    }

    /// An adapter in the fabric, in the order of their names.
    pub fn adapter(&self, number: usize) -> Option<shmem_hca::Adapter> {
        self.adapters.get(number).map(|a| a.0)
    }

    /// Changes what the machine says of an adapter: its path, whether its port is active.
    pub fn describe(&mut self, number: usize, change: impl FnOnce(&mut Adapter)) {
        if let Some((_, adapter)) = self.adapters.get_mut(number) {
            change(adapter);
        }
    }

    /// A store to a register that is no memory. False where `address` is none.
    pub fn store(&self, address: u64, bytes: &[u8]) -> bool {
        let mut fabric = lock(&self.fabric);
        let Some((adapter, number, offset)) = register_at(address) else {
            return false;
        };
        let adapter = self.adapters.iter().find(|(a, _)| a.number() == adapter);
        let Some(page) = adapter.and_then(|(a, _)| fabric.page(*a, number)) else {
            return false;
        };
        fabric.store(page, offset, bytes);
        true
    }
}

/// Adapter, page and offset of a register that is no memory. None where `address` is none of those.
pub fn register_at(address: u64) -> Option<(usize, u32, u64)> {
    let rest = address.checked_sub(INTERCEPTED).filter(|rest| *rest < INTERCEPTED)?;
    let page = rest / PAGE;
    Some((
        (page >> PAGE_BITS) as usize,
        (page & ((1 << PAGE_BITS) - 1)) as u32,
        rest % PAGE,
    ))
}

/// What a machine with that adapter would list.
fn describe(adapter: shmem_hca::Adapter, i: usize, link: Link) -> Adapter {
    let identity = adapter.identity();
    let gid = |index, kind, bytes| Gid { index, kind, bytes };
    let (lid, gids) = match link {
        Link::InfiniBand => (identity.lid, vec![gid(0, GidKind::InfiniBand, identity.gid)]),
        Link::Ethernet => {
            let [local, ipv4] = identity::ROCE_V2;
            let gids = vec![
                gid(local - 1, GidKind::RoceV1, identity.link_local),
                gid(local, GidKind::RoceV2, identity.link_local),
                gid(ipv4 - 1, GidKind::RoceV1, identity.ipv4),
                gid(ipv4, GidKind::RoceV2, identity.ipv4),
            ];
            (0, gids)
        }
    };
    let port = Port {
        number: 1,
        link,
        active: true,
        lid,
        mtu: Mtu::Bytes4096,
        partitions: 1,
        gids,
    };
    Adapter {
        name: format!("mlx5_{i}"),
        path: String::new(),
        ports: vec![port],
    }
}

impl<M: shmem_hca::Memory + Send + 'static> Calls for Emulated<M> {
    fn adapters(&self) -> Result<Vec<Adapter>, IbgdaError> {
        Ok(self.adapters.iter().map(|(_, described)| described.clone()).collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn Device>, IbgdaError> {
        let found = self.adapters.iter().find(|(_, described)| described.name == name);
        let (adapter, described) = found.ok_or(IbgdaError::NoAdapter)?;
        Ok(Box::new(EmulatedDevice {
            fabric: self.fabric.clone(),
            adapter: *adapter,
            name: described.name.clone(),
            network: self.adapters.iter().map(|(a, _)| *a).collect(),
            pages: self.pages.clone(),
            domain: None,
            objects: Vec::new(),
            umems: Vec::new(),
        }))
    }
}

/// An object of the firmware: the command that made it, and its number.
struct Made {
    opcode: u16,
    number: u32,
}

struct EmulatedDevice<M: shmem_hca::Memory> {
    fabric: Arc<Mutex<Fabric<M>>>,
    adapter: shmem_hca::Adapter,
    name: String,
    network: Vec<shmem_hca::Adapter>,
    pages: Option<PageMemory>,
    domain: Option<u32>,
    objects: Vec<Made>,
    umems: Vec<u32>,
}

impl<M: shmem_hca::Memory> EmulatedDevice<M> {
    fn command(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        lock(&self.fabric).command(self.adapter, input, output);
        crate::calls::check(&self.name, input, output)
    }

    fn refused(&self, call: &'static str, cause: &dyn std::fmt::Display) -> IbgdaError {
        IbgdaError::Call {
            adapter: self.name.clone(),
            call,
            cause: std::io::Error::other(cause.to_string()),
            advice: "the emulator says what it needs",
        }
    }

    fn number(&mut self, input: &[u8]) -> Result<u32, IbgdaError> {
        let mut answer = [0; cmd::ANSWER_BYTES];
        self.command(input, &mut answer)?;
        Ok(cmd::NUMBER.get(&answer) as u32)
    }
}

impl<M: shmem_hca::Memory + Send> Device for EmulatedDevice<M> {
    fn domain(&mut self) -> Result<u32, IbgdaError> {
        if let Some(domain) = self.domain {
            return Ok(domain);
        }
        let domain = self.number(&domain::alloc_domain())?;
        Ok(*self.domain.insert(domain))
    }

    fn event_queue(&mut self) -> Result<u8, IbgdaError> {
        Ok(firmware::EVENT_QUEUE)
    }

    fn page(&mut self) -> Result<RegisterPage, IbgdaError> {
        let (number, address) = match self.pages.clone() {
            None => {
                let number = self.number(&domain::alloc_page())?;
                let index = (self.adapter.number() as u64) << PAGE_BITS | u64::from(number);
                (number, INTERCEPTED + index * PAGE)
            }
            Some(pages) => {
                let next = pages.lock().unwrap_or_else(PoisonError::into_inner)();
                let address = next.ok_or_else(|| self.refused("mapping registers", &"no page of memory is left"))?;
                let place = Place {
                    space: Space(0),
                    address,
                };
                let page = lock(&self.fabric).add_page(self.adapter, Some(place));
                (
                    page.map_err(|e| self.refused("mapping registers", &e))?.number(),
                    address,
                )
            }
        };
        Ok(RegisterPage {
            number,
            address,
            register: address + REGISTER_OFFSET as u64,
        })
    }

    fn umem(&mut self, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        let place = Place {
            space: Space(0),
            address: memory.address,
        };
        let made = lock(&self.fabric).register_umem(self.adapter, place, bytes);
        let number = made.map_err(|cause| IbgdaError::Register {
            adapter: self.name.clone(),
            address: memory.address,
            bytes,
            cause: std::io::Error::other(cause.to_string()),
            advice: "the emulator's memory must have it",
        })?;
        self.umems.push(number);
        Ok(number)
    }

    fn key(&mut self, start: u64, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        let domain = self.domain()?;
        let umem = self.umem(memory, bytes)?;
        let key = CreateKey {
            domain,
            memory: umem,
            start,
            bytes,
            log_page_size: 12,
            variant: 0x5a,
            relaxed: false,
        };
        let mut answer = [0; cmd::ANSWER_BYTES];
        self.create(&key.command(), &mut answer)?;
        Ok((cmd::NUMBER.get(&answer) as u32) << 8 | u32::from(key.variant))
    }

    fn create(&mut self, input: &[u8], output: &mut [u8]) -> Result<Object, IbgdaError> {
        self.command(input, output)?;
        self.objects.push(Made {
            opcode: cmd::OPCODE.get(input) as u16,
            number: cmd::NUMBER.get(output) as u32,
        });
        Ok(Object(self.objects.len() - 1))
    }

    fn modify(&mut self, object: Object, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        // As Linux does: the command must name the object.
        let named = cmd::NUMBER.get(input) as u32;
        if self.objects.get(object.0).is_none_or(|made| made.number != named) {
            return Err(self.refused(
                "mlx5dv_devx_obj_modify",
                &format_args!("the command names object {named:#x}"),
            ));
        }
        self.command(input, output)
    }

    fn query(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        self.command(input, output)
    }

    fn neighbour(&mut self, _port: u8, _gid_index: u8, gid: [u8; 16]) -> Result<[u8; 6], IbgdaError> {
        let identities = self.network.iter().map(|a| a.identity());
        let found = identities.into_iter().find(|i| i.link_local == gid || i.ipv4 == gid);
        found
            .map(|i| i.mac)
            .ok_or_else(|| self.refused("resolving an address", &"no adapter of this network has it"))
    }
}

impl<M: shmem_hca::Memory> Drop for EmulatedDevice<M> {
    fn drop(&mut self) {
        let mut fabric = lock(&self.fabric);
        for made in self.objects.iter().rev() {
            let Some(mut command) = cmd::destroy(made.opcode) else {
                continue;
            };
            cmd::NUMBER.set(&mut command, made.number.into());
            fabric.command(self.adapter, &command, &mut [0; cmd::ANSWER_BYTES]);
        }
        for umem in &self.umems {
            // It is there: nobody else removes it.
            let _ = fabric.remove_umem(self.adapter, *umem);
        }
    }
}
