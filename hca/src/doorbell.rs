//! What happens when a register is written: the record is read, the entries up to it are fetched and decoded.

use crate::config::{Config, RegisterRule};
use crate::decode;
use crate::fabric::Fabric;
use crate::memory::{Memory, Place};
use crate::state::{Adapter, Page, Progress, Qp, State, Work};
use crate::tables::{BLOCK, REGISTERS, SEND_RECORD, UNIT, control};
use crate::violation::{Fault, Violation};

/// An entry, or why there is none.
struct Fetched {
    work: Work,
    fault: Option<Fault>,
}

impl<M: Memory> Fabric<M> {
    /// A store to a page of registers: to be called where a kernel or program does it.
    ///
    /// Entries and record are read here and now, so whatever is not written yet is found missing.
    pub fn store(&mut self, page: Page, offset: u64, bytes: &[u8]) {
        let value = <[u8; 8]>::try_from(bytes).ok().filter(|_| REGISTERS.contains(&offset));
        let Some(value) = value else {
            let fault = Fault::Register {
                offset,
                bytes: bytes.len(),
            };
            self.report(Violation {
                adapter: page.adapter,
                queue_pair: 0,
                index: 0,
                fault,
            });
            return;
        };
        self.ring(Adapter(page.adapter), page.number, value);
    }

    pub(crate) fn ring(&mut self, adapter: Adapter, page: u32, value: [u8; 8]) {
        let (number, register) = (
            control::QUEUE_PAIR.get(&value) as u32,
            control::INDEX.get(&value) as u16,
        );
        let found = self.adapters.get(adapter.0).and_then(|a| a.queue_pairs.get(&number));
        let Some(&index) = found else {
            self.report(Violation {
                adapter: adapter.0,
                queue_pair: number,
                index: register,
                fault: Fault::NoQueuePair { seen: number },
            });
            return;
        };
        let qp = &mut self.queue_pairs[index];
        if qp.stopped {
            return;
        }
        if page != qp.page {
            let expected = qp.page;
            self.stop(index, Fault::Page { seen: page, expected });
            return;
        }
        if qp.state < State::ReadyToSend {
            let state = qp.state;
            self.stop(index, Fault::NotReady(state));
            return;
        }
        self.memory.acquire();
        match self.fetch(index, value) {
            Ok(fetched) => {
                self.counters.doorbells += 1;
                self.counters.entries += fetched.len() as u64;
                self.activate(index);
                for entry in fetched {
                    let qp = &mut self.queue_pairs[index];
                    qp.fetched = entry.work.position + u64::from(entry.work.blocks);
                    let at = entry.work.position as u16;
                    qp.works.push_back(entry.work);
                    if let Some(fault) = entry.fault {
                        qp.stopped = true;
                        let violation = qp.violation(at, fault);
                        self.report(violation);
                    }
                }
            }
            Err(fault) => self.stop(index, fault),
        }
    }

    /// The doorbell itself is wrong: the queue pair fails behind what was posted before.
    fn stop(&mut self, index: usize, fault: Fault) {
        let (syndrome, vendor) = fault.syndrome();
        let qp = &mut self.queue_pairs[index];
        qp.stopped = true;
        qp.works.push_back(Work {
            position: qp.fetched,
            blocks: 0,
            opcode: 0,
            request: None,
            copy: Vec::new(),
            progress: Progress::Failed(syndrome, vendor),
            tries: 0,
        });
        let violation = qp.violation(qp.fetched as u16, fault);
        self.report(violation);
        self.activate(index);
    }

    /// The new entries; the last of them may be a faulty one.
    fn fetch(&mut self, index: usize, value: [u8; 8]) -> Result<Vec<Fetched>, Fault> {
        let (memory, config, qp) = (&self.memory, &self.config, &self.queue_pairs[index]);
        let register = control::INDEX.get(&value) as u16;
        let mut word = [0; 4];
        memory.read(qp.record.after(SEND_RECORD), &mut word)?;
        let word = u32::from_be_bytes(word);
        let Ok(record) = u16::try_from(word) else {
            return Err(Fault::Field {
                segment: "record",
                field: "SEND",
                seen: u64::from(word),
                expected: "below 2^16",
            });
        };
        let size = qp.ring.size();
        let new = record.wrapping_sub(qp.fetched as u16);
        let end = qp.fetched + u64::from(new);
        if end - qp.reported > size {
            return Err(Fault::Overrun {
                record,
                reported: qp.reported as u16,
                size: size as u32,
            });
        }
        // How far the register is ahead of what was fetched, if it is.
        let ahead = register.wrapping_sub(qp.fetched as u16);
        if u64::from(ahead) < size && ahead >= new {
            return Err(Fault::RegisterAhead { register, record });
        }
        if new == 0 {
            return match config.register {
                RegisterRule::Exact => Err(Fault::NothingNew { register }),
                RegisterRule::MayLag => Ok(Vec::new()),
            };
        }
        let mut fetched = Vec::new();
        let (mut position, mut last) = (qp.fetched, [0; 8]);
        while position < end {
            let mut block = [0; BLOCK];
            memory.read(qp.ring.slot(position), &mut block)?;
            let entry = read_entry(memory, config, qp, position, end, &block);
            last.copy_from_slice(&block[..8]);
            position += u64::from(entry.work.blocks);
            let bad = entry.fault.is_some();
            fetched.push(entry);
            if bad {
                return Ok(fetched);
            }
        }
        if config.register == RegisterRule::Exact
            && let Some(entry) = fetched.last_mut()
            && value != last
        {
            let at = entry.work.position as u16;
            let fault = if register == at {
                Fault::RegisterDiffers {
                    register: u64::from_be_bytes(value),
                    entry: u64::from_be_bytes(last),
                }
            } else {
                Fault::RegisterBehind { register, last: at }
            };
            let (syndrome, vendor) = fault.syndrome();
            entry.work.progress = Progress::Failed(syndrome, vendor);
            entry.fault = Some(fault);
        }
        Ok(fetched)
    }
}

/// The entry at `position`, whose first block is `block`.
fn read_entry<M: Memory>(
    memory: &M,
    config: &Config,
    qp: &Qp,
    position: u64,
    end: u64,
    block: &[u8; BLOCK],
) -> Fetched {
    let mut work = Work {
        position,
        blocks: 1,
        opcode: control::OPCODE.get(block) as u8,
        request: None,
        copy: Vec::new(),
        progress: Progress::Sending(0),
        tries: 0,
    };
    let mut read = || {
        if config.watch && block[..UNIT] == qp.poison {
            return Err(Fault::NotWritten { unit: 0 });
        }
        let head = decode::head(block, position as u16, qp.id.number)?;
        let left = (end - position) as u16;
        if head.blocks > left {
            return Err(Fault::PastRecord {
                blocks: head.blocks,
                left,
            });
        }
        work.blocks = head.blocks;
        let mut entry = block.to_vec();
        for i in 1..u64::from(head.blocks) {
            let mut block = [0; BLOCK];
            memory.read(qp.ring.slot(position + i), &mut block)?;
            entry.extend(block);
        }
        entry.truncate(head.units * UNIT);
        if config.watch
            && let Some(unit) = entry.chunks(UNIT).position(|unit| unit == qp.poison)
        {
            return Err(Fault::NotWritten { unit });
        }
        work.request = Some(decode::request(&entry)?);
        if config.watch {
            work.copy = entry;
        }
        Ok(())
    };
    let fault = read().err();
    if let Some(fault) = &fault {
        let (syndrome, vendor) = fault.syndrome();
        work.progress = Progress::Failed(syndrome, vendor);
    }
    Fetched { work, fault }
}

impl Qp {
    pub(crate) fn violation(&self, index: u16, fault: Fault) -> Violation {
        Violation {
            adapter: self.id.adapter,
            queue_pair: self.id.number,
            index,
            fault,
        }
    }

    /// Where a unit of the entry at `position` is.
    pub(crate) fn unit(&self, position: u64, unit: usize) -> Place {
        let block = position + (unit * UNIT / BLOCK) as u64;
        self.ring.slot(block).after((unit * UNIT % BLOCK) as u64)
    }
}
