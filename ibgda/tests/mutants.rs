//! The set-up with one field of one command wrong: refused by the emulated firmware, or found by what then fails. So what is
//! not found here is not checked at all.

mod common;

use common::{Job, fabric};
use shmem_ibgda::calls::{Object, RegisterPage};
use shmem_ibgda::{Adapter, Calls, Device, IbgdaError, Link, Memory, Settings};
use shmem_mlx5::cmd::completion_queue as cq;
use shmem_mlx5::cmd::queue_pair as qp;
use shmem_mlx5::cmd::{self, Field, mkey};
use shmem_mlx5::completion::Kind;
use shmem_mlx5::{Length, entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is changed in every command of that name that the first adapter gets.
#[derive(Clone)]
struct Change {
    command: &'static str,
    field: Field,
    to: fn(u64) -> u64,
    /// How often it was.
    count: Arc<AtomicUsize>,
}

struct Tampered<C> {
    inner: C,
    change: Change,
}

struct TamperedDevice {
    inner: Box<dyn Device>,
    change: Option<Change>,
}

impl<C: Calls> Calls for Tampered<C> {
    fn adapters(&self) -> Result<Vec<Adapter>, IbgdaError> {
        self.inner.adapters()
    }

    fn open(&self, name: &str) -> Result<Box<dyn Device>, IbgdaError> {
        Ok(Box::new(TamperedDevice {
            inner: self.inner.open(name)?,
            change: (name == "mlx5_0").then(|| self.change.clone()),
        }))
    }
}

impl TamperedDevice {
    fn changed(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        if let Some(change) = self.change.as_ref().filter(|c| c.command == cmd::name(input)) {
            let value = change.field.get(&bytes);
            change.field.set(&mut bytes, (change.to)(value));
            change.count.fetch_add(1, Ordering::Relaxed);
        }
        bytes
    }
}

impl Device for TamperedDevice {
    fn domain(&mut self) -> Result<u32, IbgdaError> {
        self.inner.domain()
    }
    fn event_queue(&mut self) -> Result<u8, IbgdaError> {
        self.inner.event_queue()
    }
    fn page(&mut self) -> Result<RegisterPage, IbgdaError> {
        self.inner.page()
    }
    fn umem(&mut self, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        self.inner.umem(memory, bytes)
    }
    fn key(&mut self, start: u64, memory: &Memory, bytes: u64) -> Result<u32, IbgdaError> {
        self.inner.key(start, memory, bytes)
    }
    fn create(&mut self, input: &[u8], output: &mut [u8]) -> Result<Object, IbgdaError> {
        self.inner.create(&self.changed(input), output)
    }
    fn modify(&mut self, object: Object, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        self.inner.modify(object, &self.changed(input), output)
    }
    fn query(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), IbgdaError> {
        self.inner.query(input, output)
    }
    fn neighbour(&mut self, port: u8, gid_index: u8, gid: [u8; 16]) -> Result<[u8; 6], IbgdaError> {
        self.inner.neighbour(port, gid_index, gid)
    }
}

/// Puts, gets and atomics between two PEs, both ways, past the end of the queue. What went wrong.
fn exercise(job: &mut Job) -> Result<(), String> {
    let length = Length::new(24).unwrap();
    for round in 0..20u8 {
        for (from, to) in [(0, 1), (1, 0), (0, 0)] {
            let (there, here, back) = (job.remote(to, 0x1000), job.local(from, 0), job.local(from, 0x2000));
            job.set_heap(from, 0, &[round + 1; 24]);
            for step in 0..3 {
                let done = job.post(from, 0, to, |post| match step {
                    0 => entry::write(post, there, here, length).to_vec(),
                    1 => entry::read(post, there, back, length).to_vec(),
                    _ => entry::fetch_add(post, there, 1, back).to_vec(),
                });
                let violations = fabric(&job.machine).take_violations();
                if done != Some(Kind::Request) || !violations.is_empty() {
                    return Err(format!(
                        "{from} to {to}, step {step} of round {round}: {done:?} {violations:?}"
                    ));
                }
            }
            if job.heap(from, 0x2000, 24) != [round + 1; 24] || job.heap(to, 0x1000, 1) != [round + 2] {
                return Err(format!("{from} to {to}, round {round}: other data"));
            }
        }
    }
    Ok(())
}

fn found(link: Link, change: &Change) -> Option<String> {
    let machine = common::machine(2, link, 1);
    let calls = Tampered {
        inner: machine.clone(),
        change: change.clone(),
    };
    match Job::through(machine, &calls, 2, 1, &Settings::default()) {
        Err(error) => Some(error.to_string()),
        Ok(mut job) => exercise(&mut job).err(),
    }
}

/// On which link only, command, field, and what it becomes.
type Case = (Option<Link>, &'static str, Field, fn(u64) -> u64);

#[test]
fn a_wrong_field_is_found() {
    let one_more = |v: u64| v + 1;
    let zero = |_: u64| 0;
    let other = |v: u64| v ^ 1;
    let line = |v: u64| v + 64;
    let cases: &[Case] = &[
        (None, "CREATE_CQ", cmd::OPCODE, one_more),
        (None, "CREATE_CQ", cq::RECORD_UMEM_VALID, other),
        (None, "CREATE_CQ", cq::SIZE, one_more),
        (None, "CREATE_CQ", cq::IGNORE_OVERRUN, other),
        // Another umem would do: nobody reads this record, as overruns are ignored.
        (None, "CREATE_CQ", cq::RECORD_UMEM, |v| v + 99),
        (None, "CREATE_CQ", cq::PAGE, one_more),
        (None, "CREATE_CQ", cq::EVENT_QUEUE, one_more),
        (None, "CREATE_CQ", cq::RECORD_OFFSET, one_more),
        (None, "CREATE_CQ", cq::UMEM_OFFSET, line),
        (None, "CREATE_CQ", cq::UMEM, other),
        (None, "CREATE_CQ", cq::UMEM_VALID, other),
        (None, "CREATE_QP", qp::SERVICE, one_more),
        (None, "CREATE_QP", qp::PATH_MIGRATION, zero),
        (None, "CREATE_QP", qp::DOMAIN, one_more),
        (None, "CREATE_QP", qp::PAGE, one_more),
        (None, "CREATE_QP", qp::SEND_COMPLETIONS, other),
        (None, "CREATE_QP", qp::RECEIVE_COMPLETIONS, |v| v + 99),
        (None, "CREATE_QP", qp::LOG_SIZE, |v| v - 1),
        (None, "CREATE_QP", qp::RECEIVE_QUEUE, zero),
        (None, "CREATE_QP", qp::TIMESTAMP_FORMAT, one_more),
        (None, "CREATE_QP", qp::RECORD_UMEM_VALID, other),
        (None, "CREATE_QP", qp::RECORD_UMEM, other),
        (None, "CREATE_QP", qp::RECORD_OFFSET, line),
        (None, "CREATE_QP", qp::UMEM_VALID, other),
        (None, "CREATE_QP", qp::UMEM, one_more),
        (None, "CREATE_QP", qp::UMEM_OFFSET, line),
        (None, "RST2INIT_QP", qp::NUMBER, one_more),
        (None, "RST2INIT_QP", qp::PATH_MIGRATION, zero),
        (None, "RST2INIT_QP", qp::ATOMIC_MODE, zero),
        (None, "RST2INIT_QP", qp::REMOTE_READ, other),
        (None, "RST2INIT_QP", qp::REMOTE_WRITE, other),
        (None, "RST2INIT_QP", qp::REMOTE_ATOMIC, other),
        (None, "RST2INIT_QP", qp::PORT, one_more),
        (None, "RST2INIT_QP", qp::PARTITION, one_more),
        (None, "INIT2RTR_QP", qp::REMOTE, |v| v + 3),
        (None, "INIT2RTR_QP", qp::PORT, zero),
        (None, "INIT2RTR_QP", qp::MTU, |v| v - 1),
        (None, "INIT2RTR_QP", qp::LOG_MAX_MESSAGE, |v| v - 1),
        (None, "INIT2RTR_QP", qp::NEXT_RECEIVED_PACKET, one_more),
        (Some(Link::InfiniBand), "INIT2RTR_QP", qp::REMOTE_LID, other),
        (Some(Link::InfiniBand), "INIT2RTR_QP", qp::GLOBAL, other),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::REMOTE_GID_HIGH, one_more),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::REMOTE_GID_LOW, one_more),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::REMOTE_MAC, one_more),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::GID_INDEX, |v| v - 1),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::HOP_LIMIT, zero),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::UDP_SOURCE_PORT, zero),
        (Some(Link::Ethernet), "INIT2RTR_QP", qp::DSCP, one_more),
        (None, "RTR2RTS_QP", qp::ACK_TIMEOUT, zero),
        (None, "RTR2RTS_QP", qp::NEXT_SEND_PACKET, one_more),
        (None, "RTR2RTS_QP", qp::LOG_READS_SENDER, one_more),
        // Bits of no field of this command.
        (None, "RTR2RTS_QP", mkey::UMEM, one_more),
    ];
    let mut missed = vec![];
    for &(only, command, field, to) in cases {
        for link in [Link::InfiniBand, Link::Ethernet] {
            if only.is_some_and(|only| only != link) {
                continue;
            }
            let change = Change {
                command,
                field,
                to,
                count: Arc::default(),
            };
            if found(link, &change).is_none() {
                missed.push(format!("{command} {field:?} on {link:?}"));
            }
            assert_ne!(change.count.load(Ordering::Relaxed), 0, "{command} is never sent");
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn without_a_change_nothing_is_found() {
    for link in [Link::InfiniBand, Link::Ethernet] {
        let change = Change {
            command: "CREATE_QP",
            field: qp::DOMAIN,
            to: |v| v,
            count: Arc::default(),
        };
        assert_eq!(found(link, &change), None);
    }
}
