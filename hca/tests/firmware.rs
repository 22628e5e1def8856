//! The firmware's commands: what crate `shmem_mlx5` builds is done, and whatever else is refused with what was wrong.

use proptest::prelude::*;
use shmem_hca::firmware::tables::{self, Command};
use shmem_hca::firmware::{Capabilities, EVENT_QUEUE, Reason};
use shmem_hca::{Adapter, Config, Fabric, Link, Memory, Place, Ram, SetupError, Space, State};
use shmem_mlx5::cmd::completion_queue::CreateCompletionQueue;
use shmem_mlx5::cmd::mkey::CreateKey;
use shmem_mlx5::cmd::queue_pair::{self, CreateQueuePair, Mtu, ReadyToReceive, ReadyToSend, Route};
use shmem_mlx5::cmd::{self, Status, capability, domain};

const MEMORY: u64 = 0x10_0000;
const BYTES: usize = 0x8000;

fn place(address: u64) -> Place {
    Place {
        space: Space(0),
        address,
    }
}

/// Builds a command from what is there and the number that the last one made.
type Build = dyn Fn(&Rig, u32) -> Vec<u8>;

/// Two adapters that have a domain, a page and a umem each: `commands` are those that connect the first to itself.
struct Rig {
    fabric: Fabric<Ram>,
    one: Adapter,
    two: Adapter,
    domain: u32,
    page: u32,
    umem: u32,
}

impl Rig {
    fn new(link: Link) -> Self {
        let mut fabric = Fabric::new(Ram::new(), Config::strict(1));
        fabric.memory_mut().add(place(MEMORY), BYTES);
        fabric.memory_mut().write(place(MEMORY), &vec![0xff; BYTES]).unwrap();
        let (one, two) = (fabric.add_adapter(), fabric.add_adapter());
        let (mut domains, mut pages, mut umems) = (vec![], vec![], vec![]);
        for adapter in [one, two] {
            fabric.set_link(adapter, link);
            umems.push(fabric.register_umem(adapter, place(MEMORY), BYTES as u64).unwrap());
            for (command, numbers) in [
                (domain::alloc_domain(), &mut domains),
                (domain::alloc_page(), &mut pages),
            ] {
                let answer = Self::run(&mut fabric, adapter, &command);
                assert_eq!(Status::of(&answer), Status::Ok);
                numbers.push(cmd::NUMBER.get(&answer) as u32);
            }
        }
        Self {
            fabric,
            one,
            two,
            domain: domains[0],
            page: pages[0],
            umem: umems[0],
        }
    }

    fn run(fabric: &mut Fabric<Ram>, adapter: Adapter, command: &[u8]) -> [u8; 16] {
        let mut answer = [0x5a; 16];
        fabric.command(adapter, command, &mut answer);
        answer
    }

    fn command(&mut self, command: &[u8]) -> [u8; 16] {
        Self::run(&mut self.fabric, self.one, command)
    }

    /// Does a command that must be done; the number in its answer.
    #[track_caller]
    fn done(&mut self, command: &[u8]) -> u32 {
        let answer = self.command(command);
        assert_eq!(Status::of(&answer), Status::Ok, "{:?}", self.fabric.take_refusals());
        cmd::NUMBER.get(&answer) as u32
    }

    #[track_caller]
    fn refused(&mut self, command: &[u8], status: Status) -> Reason {
        let answer = self.command(command);
        let refusal = self.fabric.take_refusals().pop().expect("it was done");
        assert_eq!(Status::of(&answer), status, "{refusal}");
        assert_eq!(cmd::SYNDROME.get(&answer) as u32, refusal.reason.status().1);
        refusal.reason
    }

    fn key(&self) -> CreateKey {
        CreateKey {
            domain: self.domain,
            memory: self.umem,
            start: 0x4000,
            bytes: 0x3000,
            log_page_size: 12,
            variant: 7,
            relaxed: false,
        }
    }

    fn completions(&self) -> CreateCompletionQueue {
        CreateCompletionQueue {
            log2: 0,
            page: self.page,
            event_queue: EVENT_QUEUE,
            memory: self.umem,
            offset: 0x1000,
            record_memory: self.umem,
            record_offset: 0x2000,
            collapsed: true,
            ignore_overrun: true,
        }
    }

    fn queue(&self, completions: u32) -> CreateQueuePair {
        CreateQueuePair {
            domain: self.domain,
            page: self.page,
            completions,
            log2: 4,
            memory: self.umem,
            offset: 0x3000,
            record_memory: self.umem,
            record_offset: 0x2040,
            timestamp_format: 0,
        }
    }

    fn route(&self) -> Route {
        let identity = self.one.identity();
        match self.fabric.link(self.one) {
            Link::InfiniBand => Route::InfiniBand {
                lid: identity.lid,
                service_level: 2,
            },
            Link::Ethernet => Route::Roce {
                gid: identity.ipv4,
                mac: identity.mac,
                gid_index: 3,
                hop_limit: 64,
                traffic_class: 0x60,
                udp_source_port: 0xc123,
            },
        }
    }

    fn ready_to_receive(&self, number: u32) -> ReadyToReceive {
        ReadyToReceive {
            number,
            remote: number,
            port: 1,
            mtu: Mtu::Bytes1024,
            log_reads: 4,
            route: self.route(),
        }
    }

    /// The commands of a set-up, in order, up to the one before `last`; and that one.
    fn until(link: Link, last: &str) -> (Self, Vec<u8>) {
        let mut rig = Self::new(link);
        let mut number = 0;
        let steps: [(&str, &Build); 6] = [
            ("CREATE_MKEY", &|rig, _| rig.key().command().to_vec()),
            ("CREATE_CQ", &|rig, _| rig.completions().command().to_vec()),
            ("CREATE_QP", &|rig, completions| {
                rig.queue(completions).command().to_vec()
            }),
            ("RST2INIT_QP", &|_, number| queue_pair::init(number, 1, 0).to_vec()),
            ("INIT2RTR_QP", &|rig, number| {
                rig.ready_to_receive(number).command().to_vec()
            }),
            ("RTR2RTS_QP", &|_, number| {
                ReadyToSend {
                    number,
                    log_reads: 4,
                    retries: 7,
                    ack_timeout: 20,
                }
                .command()
                .to_vec()
            }),
        ];
        for (name, build) in steps {
            let command = build(&rig, number);
            assert_eq!(cmd::name(&command), name);
            if name == last {
                return (rig, command);
            }
            let answer = rig.done(&command);
            if name.starts_with("CREATE") {
                number = answer;
            }
        }
        (rig, vec![])
    }
}

const LINKS: [Link; 2] = [Link::InfiniBand, Link::Ethernet];

#[test]
fn a_set_up_by_commands_ends_ready_to_send_and_can_be_undone() {
    for link in LINKS {
        let (mut rig, _) = Rig::until(link, "");
        let number = 0x40;
        let id = rig.fabric.queue_pairs_of(rig.one)[0];
        assert_eq!((id.number(), rig.fabric.state(id)), (number, Ok(State::ReadyToSend)));
        // In use.
        let mut end = cmd::destroy(cmd::Opcode::CreateCq as u16).unwrap();
        assert_eq!(
            rig.refused(&end, Status::Busy),
            Reason::Setup(SetupError::InUse("completion queue"))
        );
        rig.done(&queue_pair::to_error(number));
        assert_eq!(rig.fabric.state(id), Ok(State::Error));
        rig.done(&queue_pair::to_reset(number));
        assert_eq!(rig.fabric.state(id), Ok(State::Reset));
        rig.done(&queue_pair::init(number, 1, 0));
        for (made, what) in [
            (cmd::Opcode::CreateQp, number),
            (cmd::Opcode::CreateCq, 0),
            (cmd::Opcode::CreateMkey, 0x11),
        ] {
            end = cmd::destroy(made as u16).unwrap();
            cmd::NUMBER.set(&mut end, what.into());
            rig.done(&end);
            let gone = rig.refused(&end, Status::BadResource);
            assert!(matches!(gone, Reason::Object { .. }), "{gone}");
        }
        assert_eq!(rig.fabric.queue_pairs_of(rig.one), []);
    }
}

/// Fields in which a flipped bit is taken: they may hold something else. Every other bit of every command is refused.
const FREE: &[(&str, &[&str])] = &[
    (
        "CREATE_MKEY",
        &[
            "RELAXED_WRITE",
            "ATOMIC",
            "REMOTE_WRITE",
            "REMOTE_READ",
            "VARIANT",
            "START",
            "LENGTH",
            "RELAXED_READ",
            "UMEM_OFFSET",
        ],
    ),
    (
        "CREATE_CQ",
        &[
            "COLLAPSED",
            "IGNORE_OVERRUN",
            "LOG_SIZE",
            "RECORD_OFFSET",
            "UMEM_OFFSET",
        ],
    ),
    ("CREATE_QP", &["LOG_SIZE", "RECORD_OFFSET", "UMEM_OFFSET"]),
    ("RST2INIT_QP", &["REMOTE_READ", "REMOTE_WRITE", "REMOTE_ATOMIC"]),
    (
        "INIT2RTR_QP InfiniBand",
        &["MTU", "SERVICE_LEVEL", "LOG_READS", "NOT_READY_TIMER", "FIRST_PACKET"],
    ),
    (
        "INIT2RTR_QP Ethernet",
        &[
            "MTU",
            "HOPS",
            "TRAFFIC_CLASS",
            "UDP_PORT",
            "LOG_READS",
            "NOT_READY_TIMER",
            "FIRST_PACKET",
        ],
    ),
    (
        "RTR2RTS_QP",
        &[
            "ACK_TIMEOUT",
            "LOG_ACK_FREQUENCY",
            "LOG_READS",
            "RETRIES",
            "NOT_READY_RETRIES",
            "FIRST_PACKET",
        ],
    ),
];

#[test]
fn every_bit_of_every_command_matters() {
    for link in LINKS {
        for &(name, free) in FREE {
            let (name, only) = name.split_once(' ').unwrap_or((name, ""));
            if !only.is_empty() && only != format!("{link:?}") {
                continue;
            }
            let command: &Command = tables::COMMANDS.iter().find(|c| c.name == name).unwrap();
            let bytes = Rig::until(link, name).1;
            let mut taken = vec![];
            for bit in 0..bytes.len() as u32 * 8 {
                let (mut rig, mut flipped) = Rig::until(link, name);
                flipped[bit as usize / 8] ^= 0x80 >> (bit % 8);
                let answer = rig.command(&flipped);
                let refusals = rig.fabric.take_refusals();
                if Status::of(&answer) != Status::Ok {
                    assert_eq!(refusals.len(), 1);
                    continue;
                }
                assert_eq!(refusals, []);
                let field = command
                    .fields
                    .iter()
                    .find(|f| (f.start..f.start + f.bits).contains(&bit));
                let field = field
                    .unwrap_or_else(|| panic!("{name}: bit {bit:#x} is no field's, and taken"))
                    .name;
                if taken.last() != Some(&field) {
                    taken.push(field);
                }
            }
            assert_eq!(taken, free, "{name} on {link:?}");
        }
    }
}

#[test]
fn lengths_are_exact_and_answers_fit() {
    let (mut rig, command) = Rig::until(Link::Ethernet, "CREATE_CQ");
    let expected = Reason::Length {
        seen: 271,
        expected: 272,
    };
    assert_eq!(rig.refused(&command[..271], Status::BadInputLength), expected);
    rig.refused(&[&command[..], &[0; 8]].concat(), Status::BadInputLength);
    assert_eq!(rig.refused(&[], Status::BadOperation), Reason::Opcode(0));
    let mut short = [0x5a; 15];
    rig.fabric.command(rig.one, &command, &mut short);
    assert_eq!(Status::of(&short), Status::BadOutputLength);
    // Nothing was made.
    assert_eq!(rig.done(&command), 0);
    // What fits of an answer is written.
    for bytes in 0..8 {
        let mut tiny = vec![0x5a; bytes];
        rig.fabric.command(rig.one, &command, &mut tiny);
        assert!(bytes == 0 || tiny[0] == 0x51);
    }
}

#[test]
fn objects_of_other_adapters_are_not_there() {
    let mut rig = Rig::new(Link::InfiniBand);
    let (one, two) = (rig.one, rig.two);
    let command = rig.key().command();
    rig.done(&command);
    rig.one = two;
    let reason = rig.refused(&command, Status::BadResource);
    assert!(matches!(reason, Reason::Object { field: "UMEM", .. }), "{reason}");
    rig.one = one;
    let completions = rig.completions().command();
    let completions = rig.done(&completions);
    let queue = rig.queue(completions).command();
    rig.one = two;
    let reason = rig.refused(&queue, Status::BadResource);
    assert!(
        matches!(
            reason,
            Reason::Object {
                field: "SEND_COMPLETIONS",
                ..
            }
        ),
        "{reason}"
    );
}

#[test]
fn commands_out_of_order_are_refused_with_the_state() {
    let (mut rig, command) = Rig::until(Link::InfiniBand, "RTR2RTS_QP");
    rig.done(&command);
    let reason = rig.refused(&command, Status::BadQueuePairState);
    let state = SetupError::State {
        seen: State::ReadyToSend,
        expected: State::ReadyToReceive,
    };
    assert_eq!(reason, Reason::Setup(state));
}

#[test]
fn capabilities_are_told_and_kept_to() {
    let mut rig = Rig::new(Link::Ethernet);
    let few = Capabilities {
        log_max_blocks: 3,
        log_max_queue_pairs: 0,
        timestamp_formats: 1,
        ..Capabilities::default()
    };
    rig.fabric.set_capabilities(rig.one, few);
    let mut answer = [0x5a; capability::ANSWER_BYTES];
    for (group, field, expected) in [
        (capability::Group::General, capability::general::LOG_MAX_QP_SIZE, 3),
        (capability::Group::General, capability::general::ROCE, 1),
        (capability::Group::Atomic, capability::atomic::SIZES, 12),
        (capability::Group::Roce, capability::roce::TIMESTAMP_FORMATS, 1),
    ] {
        rig.fabric.command(rig.one, &capability::query(group), &mut answer);
        assert_eq!((Status::of(&answer), field.get(&answer)), (Status::Ok, expected));
    }
    let completions = rig.completions().command();
    let completions = rig.done(&completions);
    let mut queue = rig.queue(completions);
    rig.refused(&queue.command(), Status::BadParameter);
    queue.log2 = 3;
    rig.done(&queue.command());
    let reason = rig.refused(&queue.command(), Status::Limit);
    assert!(matches!(reason, Reason::Setup(SetupError::Size { .. })), "{reason}");
    // InfiniBand has no such group.
    rig.fabric.set_link(rig.one, Link::InfiniBand);
    rig.fabric
        .command(rig.one, &capability::query(capability::Group::Roce), &mut answer);
    assert_eq!(Status::of(&answer), Status::BadParameter);
}

#[test]
fn umems_are_memory() {
    let mut rig = Rig::new(Link::InfiniBand);
    let refused = rig.fabric.register_umem(rig.one, place(MEMORY), BYTES as u64 + 1);
    assert!(matches!(refused, Err(SetupError::Unmapped(_))), "{refused:?}");
    let refused = rig.fabric.register_umem(rig.one, place(MEMORY), 0);
    assert_eq!(refused, Err(SetupError::Empty("umem")));
    let umem = rig.umem;
    rig.fabric.remove_umem(rig.one, umem).unwrap();
    assert_eq!(rig.fabric.remove_umem(rig.one, umem), Err(SetupError::Unknown("umem")));
    let command = rig.key().command();
    rig.refused(&command, Status::BadResource);
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_there_is_an_answer(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        which in 0..tables::COMMANDS.len() + 2,
        exact in any::<bool>(),
        sparse in any::<bool>(),
        answer in 0..40usize,
        step in 0..7usize,
    ) {
        let names = ["CREATE_MKEY", "CREATE_CQ", "CREATE_QP", "RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP", ""];
        let (mut rig, valid) = Rig::until(Link::Ethernet, names[step]);
        if let Some(command) = tables::COMMANDS.get(which) {
            if exact {
                bytes.resize(command.bytes, 0);
            }
            if sparse {
                // Only fields hold something.
                let mut fields = vec![0; bytes.len()];
                for field in command.fields {
                    field.set(&mut fields, field.get(&bytes));
                }
                bytes = fields;
            }
            tables::OPCODE.set(&mut bytes, command.opcode.into());
        } else if !valid.is_empty() {
            // A good command with some of its bytes changed.
            let mut changed = valid;
            for pair in bytes.chunks(2).take(3) {
                let at = usize::from(pair[0]) % changed.len();
                changed[at] ^= pair.get(1).copied().unwrap_or(0);
            }
            bytes = changed;
        }
        let mut output = vec![0x5a; answer];
        rig.fabric.command(rig.one, &bytes, &mut output);
        let refusals = rig.fabric.take_refusals();
        prop_assert_eq!(refusals.is_empty(), output.first().is_some_and(|&status| status == 0));
        for refusal in refusals {
            prop_assert!(!refusal.to_string().is_empty());
        }
        rig.fabric.run();
    }
}
