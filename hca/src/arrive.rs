//! Packets that arrive at the target, and what they do there.

use crate::decode::{Change, Operation, Piece, Pointer, Target};
use crate::fabric::Fabric;
use crate::keys::{KeyFault, Want};
use crate::memory::{Memory, Place};
use crate::state::{AdapterState, Landing, Progress, Qp};
use crate::violation::Fault;

/// What a packet does at the target.
enum Arrival {
    /// Bytes for its memory.
    Packet(Landing, Progress),
    /// A request.
    Request(Progress),
    /// An atomic; the old value goes back to a place.
    Change {
        place: Place,
        change: Change,
        back: (Place, bool),
    },
}

impl AdapterState {
    /// Where memory under a key is, and whether writes to it are relaxed.
    fn resolve(&self, domain: u32, key: u32, address: u64, bytes: u64, want: Want) -> Result<(Place, bool), KeyFault> {
        let entry = self.keys.get(&key).ok_or(KeyFault::Unknown { key })?;
        let place = entry.check(key, domain, address, bytes, want)?;
        Ok((place, entry.access.relaxed_ordering))
    }

    fn local(&self, domain: u32, pointer: Pointer, want: Want) -> Result<(Place, bool), Fault> {
        let bytes = u64::from(pointer.bytes);
        self.resolve(domain, pointer.key, pointer.address, bytes, want)
            .map_err(Fault::Local)
    }

    fn remote(&self, domain: u32, at: Target, bytes: u64, want: Want) -> Result<(Place, bool), Fault> {
        self.resolve(domain, at.key, at.address, bytes, want)
            .map_err(Fault::Remote)
    }
}

impl<M: Memory> Fabric<M> {
    /// The next packet of entry `at` arrives at the target.
    pub(crate) fn send(&mut self, index: usize, at: usize) -> Result<(), Fault> {
        let Some((position, arrival)) = self.arrive(index, at)? else {
            return Ok(());
        };
        let (progress, landing, answer) = match arrival {
            Arrival::Packet(landing, progress) => (progress, Some(landing), None),
            Arrival::Request(progress) => (progress, None, None),
            Arrival::Change { place, change, back } => {
                self.land_before(index, position)?;
                let value = self.memory.change(place, change.bytes, &|word| change.apply(word))?;
                let bytes = match (change.bytes, self.config.native_atomics) {
                    (4, _) => (value as u32).to_be_bytes().to_vec(),
                    (_, true) => value.to_ne_bytes().to_vec(),
                    (_, false) => value.to_be_bytes().to_vec(),
                };
                let (place, relaxed) = back;
                let answer = Landing {
                    position,
                    place,
                    bytes,
                    relaxed,
                };
                (Progress::Answered, None, Some(answer))
            }
        };
        let qp = &mut self.queue_pairs[index];
        qp.landings.extend(landing);
        qp.answers.extend(answer);
        if !matches!(progress, Progress::Sending(_)) {
            qp.sent += 1;
        }
        if let Some(work) = qp.works.get_mut(at) {
            (work.progress, work.tries) = (progress, 0);
        }
        Ok(())
    }

    /// Checks keys and permissions, and says what the next packet of entry `at` does. None where there is no such packet.
    fn arrive(&self, index: usize, at: usize) -> Result<Option<(u64, Arrival)>, Fault> {
        let qp = &self.queue_pairs[index];
        let (Some(work), Some(target)) = (qp.works.get(at), qp.target.and_then(|t| self.queue_pairs.get(t))) else {
            return Ok(None);
        };
        let (Some(request), &Progress::Sending(offset)) = (&work.request, &work.progress) else {
            return Ok(None);
        };
        let (here, there) = (&self.adapters[qp.id.adapter], &self.adapters[target.id.adapter]);
        let position = work.position;
        let limit = 1 << target.agreed.log_reads;
        if request.operation.is_fetching() && qp.reads_in_flight() >= limit {
            return Err(Fault::TooManyReads { limit });
        }
        let arrival = match &request.operation {
            Operation::Nop => Arrival::Request(Progress::Acknowledged),
            Operation::Send { .. } | Operation::Write { immediate: Some(_), .. } => {
                return Err(Fault::ReceiverNotReady);
            }
            Operation::Write { to, data, .. } => {
                let total = request.operation.bytes();
                if total == 0 {
                    // Without bytes, no key is looked at.
                    return Ok(Some((position, Arrival::Request(Progress::Acknowledged))));
                }
                if !target.permissions.write {
                    return Err(Fault::TargetRefuses { what: "writes" });
                }
                let packet = (total - offset).min(u64::from(self.config.mtu));
                if offset == 0 && packet < total {
                    there.remote(target.domain, *to, total, Want::RemoteWrite)?;
                }
                let to = Target {
                    address: to.address.wrapping_add(offset),
                    ..*to
                };
                let bytes = gather(&self.memory, here, qp.domain, data, offset, packet)?;
                let (place, relaxed) = there.remote(target.domain, to, packet, Want::RemoteWrite)?;
                let landing = Landing {
                    position,
                    place,
                    bytes,
                    relaxed,
                };
                let end = offset + packet == total;
                let progress = if end {
                    Progress::Acknowledged
                } else {
                    Progress::Sending(offset + packet)
                };
                Arrival::Packet(landing, progress)
            }
            Operation::Read { from, to } => {
                if !target.permissions.read {
                    return Err(Fault::TargetRefuses { what: "reads" });
                }
                for pointer in to {
                    here.local(qp.domain, *pointer, Want::LocalWrite)?;
                }
                there.remote(target.domain, *from, request.operation.bytes(), Want::RemoteRead)?;
                Arrival::Request(Progress::Reading { fetched: 0, landed: 0 })
            }
            Operation::Atomic { to, change, old } => {
                if !target.permissions.atomic {
                    return Err(Fault::TargetRefuses { what: "atomics" });
                }
                let back = here.local(qp.domain, *old, Want::LocalWrite)?;
                let (place, _) = there.remote(target.domain, *to, change.bytes as u64, Want::RemoteAtomic)?;
                if !to.address.is_multiple_of(change.bytes as u64) {
                    return Err(Fault::Misaligned {
                        address: to.address,
                        bytes: change.bytes,
                    });
                }
                Arrival::Change {
                    place,
                    change: *change,
                    back,
                }
            }
        };
        Ok(Some((position, arrival)))
    }

    /// The target reads the next bytes of the read at `at`, and they come back.
    pub(crate) fn fetch_for(&mut self, index: usize, at: usize) -> Result<(), Fault> {
        let position = self.queue_pairs[index].works.get(at).map_or(0, |w| w.position);
        self.land_before(index, position)?;
        let qp = &self.queue_pairs[index];
        let (Some(work), Some(target)) = (qp.works.get(at), qp.target.and_then(|t| self.queue_pairs.get(t))) else {
            return Ok(());
        };
        let (Some(request), &Progress::Reading { fetched, landed }) = (&work.request, &work.progress) else {
            return Ok(());
        };
        let Operation::Read { from, to } = &request.operation else {
            return Ok(());
        };
        let packet = (request.operation.bytes() - fetched).min(u64::from(self.config.mtu));
        let from = Target {
            address: from.address.wrapping_add(fetched),
            ..*from
        };
        let there = &self.adapters[target.id.adapter];
        let (place, _) = there.remote(target.domain, from, packet, Want::RemoteRead)?;
        let mut bytes = vec![0; packet as usize];
        self.memory.read(place, &mut bytes)?;
        let mut answers = Vec::new();
        for part in Qp::spread(to, fetched, packet) {
            let (place, relaxed) = self.adapters[qp.id.adapter].local(qp.domain, part, Want::LocalWrite)?;
            let rest = bytes.split_off(part.bytes as usize);
            answers.push(Landing {
                position,
                place,
                bytes: std::mem::replace(&mut bytes, rest),
                relaxed,
            });
        }
        let qp = &mut self.queue_pairs[index];
        qp.answers.extend(answers);
        if let Some(work) = qp.works.get_mut(at) {
            work.tries = 0;
            work.progress = Progress::Reading {
                fetched: fetched + packet,
                landed,
            };
        }
        Ok(())
    }
}

/// `bytes` of the data of a request, from `offset` on.
fn gather<M: Memory>(
    memory: &M,
    here: &AdapterState,
    domain: u32,
    data: &[Piece],
    mut offset: u64,
    bytes: u64,
) -> Result<Vec<u8>, Fault> {
    let mut all = vec![0; bytes as usize];
    let mut filled = 0;
    for piece in data {
        if offset >= piece.len() {
            offset -= piece.len();
            continue;
        }
        let take = (piece.len() - offset).min((all.len() - filled) as u64) as usize;
        let into = &mut all[filled..filled + take];
        match piece {
            Piece::Inline(inline) => into.copy_from_slice(&inline[offset as usize..][..take]),
            Piece::Pointer(pointer) => {
                let part = Pointer {
                    address: pointer.address.wrapping_add(offset),
                    bytes: take as u32,
                    ..*pointer
                };
                let (place, _) = here.local(domain, part, Want::LocalRead)?;
                memory.read(place, into)?;
            }
        }
        (offset, filled) = (0, filled + take);
    }
    Ok(all)
}
