//! What commands look like, as this crate reads the public headers (Linux' and rdma-core's `mlx5_ifc.h`): every field that
//! is understood, by the bit where it starts in the command. Everything else must be zero.

use crate::tables::Field;

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What the headers call it.
    pub name: &'static str,
    /// Its number.
    pub opcode: u16,
    /// Its bytes.
    pub bytes: usize,
    /// Bytes of its answer.
    pub answer: usize,
    /// Its fields besides the opcode, in order.
    pub fields: &'static [Field],
}

impl Command {
    /// The first bit that is set and is none of a field.
    pub fn stray_bit(&self, input: &[u8]) -> Option<u32> {
        let mut left = input.to_vec();
        OPCODE.set(&mut left, 0);
        for field in self.fields {
            field.set(&mut left, 0);
        }
        let at = left.iter().position(|&byte| byte != 0)?;
        Some(at as u32 * 8 + left[at].leading_zeros())
    }
}

/// Which command.
pub const OPCODE: Field = Field {
    name: "OPCODE",
    start: 0,
    bits: 16,
};

macro_rules! commands { ($($(#[doc = $doc:literal])* $module:ident $name:literal $opcode:literal $bytes:literal $answer:literal { $($field:ident = $start:literal, $bits:literal;)* })*) => {
    $(
        $(#[doc = $doc])*
        pub mod $module {
            use super::Command;
            $(
                #[doc = concat!("Bits ", stringify!($start), " and on, ", stringify!($bits), " of them.")]
                pub const $field: crate::tables::Field = crate::tables::Field { name: stringify!($field), start: $start, bits: $bits };
            )*
            /// All of it.
            pub const COMMAND: Command = Command { name: $name, opcode: $opcode, bytes: $bytes, answer: $answer, fields: &[$($field),*] };
            const _: () = {
                // Fields follow each other, and end before the command does.
                let (mut i, mut at) = (0, 16);
                while i < COMMAND.fields.len() {
                    assert!(COMMAND.fields[i].start >= at);
                    at = COMMAND.fields[i].start + COMMAND.fields[i].bits;
                    i += 1;
                }
                assert!(at <= $bytes * 8);
            };
        }
    )*
    /// Every command that the emulated firmware knows.
    pub const COMMANDS: &[Command] = &[$($module::COMMAND),*];
} }
commands! {
    /// What the adapter can do.
    query_hca_cap "QUERY_HCA_CAP" 0x100 16 4112 {
        MODIFIER = 0x30, 16;
    }
    /// Makes a key over a umem.
    create_mkey "CREATE_MKEY" 0x200 272 16 {
        UMEM_VALID = 0x61, 1;
        RELAXED_WRITE = 0x8d, 1; ATOMIC = 0x91, 1; REMOTE_WRITE = 0x92, 1; REMOTE_READ = 0x93, 1; LOCAL_WRITE = 0x94, 1; LOCAL_READ = 0x95, 1;
        ACCESS_MODE = 0x96, 2; QUEUE_PAIR = 0xa0, 24; VARIANT = 0xb8, 8; DOMAIN = 0xe8, 24; START = 0x100, 64; LENGTH = 0x140, 64;
        RELAXED_READ = 0x259, 1; LOG_PAGE = 0x25b, 5;
        TRANSLATION_UNITS = 0x300, 32; UMEM = 0x320, 32; UMEM_OFFSET = 0x340, 64;
    }
    /// Ends a key.
    destroy_mkey "DESTROY_MKEY" 0x202 16 16 {
        NUMBER = 0x48, 24;
    }
    /// Makes a completion queue.
    create_cq "CREATE_CQ" 0x400 272 16 {
        RECORD_UMEM_VALID = 0x86, 1; SLOT = 0x88, 3; COLLAPSED = 0x8b, 1; IGNORE_OVERRUN = 0x8e, 1; RECORD_UMEM = 0xa0, 32;
        LOG_SIZE = 0xe3, 5; PAGE = 0xe8, 24; EVENT_QUEUE = 0x120, 32; RECORD_OFFSET = 0x240, 64;
        UMEM_OFFSET = 0x280, 64; UMEM = 0x2c0, 32; UMEM_VALID = 0x2e0, 1;
    }
    /// Ends a completion queue.
    destroy_cq "DESTROY_CQ" 0x401 16 16 {
        NUMBER = 0x48, 24;
    }
    /// Makes a queue pair.
    create_qp "CREATE_QP" 0x500 272 16 {
        SERVICE = 0xc8, 8; PATH_MIGRATION = 0xd3, 2; DOMAIN = 0xe8, 24; LOG_SIZE = 0x111, 4; TIMESTAMPS = 0x118, 2; PAGE = 0x128, 24;
        SEND_COMPLETIONS = 0x4a8, 24; RECEIVE_COMPLETIONS = 0x5a8, 24; RECORD_OFFSET = 0x5c0, 64; RECEIVE_QUEUE = 0x625, 3;
        RECORD_UMEM_VALID = 0x743, 1; RECORD_UMEM = 0x7e0, 32;
        UMEM_OFFSET = 0x800, 64; UMEM = 0x840, 32; UMEM_VALID = 0x860, 1;
    }
    /// Ends a queue pair.
    destroy_qp "DESTROY_QP" 0x501 16 16 {
        NUMBER = 0x48, 24;
    }
    /// Reset to Init.
    rst2init_qp "RST2INIT_QP" 0x502 272 16 {
        NUMBER = 0x48, 24; PATH_MIGRATION = 0xd3, 2; PARTITION = 0x190, 16; PORT = 0x2a8, 8;
        ATOMIC_MODE = 0x54c, 4; REMOTE_READ = 0x550, 1; REMOTE_WRITE = 0x551, 1; REMOTE_ATOMIC = 0x552, 1;
    }
    /// Init to ReadyToReceive.
    init2rtr_qp "INIT2RTR_QP" 0x503 272 16 {
        NUMBER = 0x48, 24; MTU = 0x100, 3; LOG_MESSAGE = 0x103, 5; REMOTE = 0x168, 24;
        GLOBAL = 0x1a8, 1; LID = 0x1b0, 16; GID_INDEX = 0x1c8, 8; HOPS = 0x1d8, 8; TRAFFIC_CLASS = 0x1e4, 8;
        GID_HIGH = 0x200, 64; GID_LOW = 0x240, 64; DSCP = 0x28a, 6; UDP_PORT = 0x290, 16; SERVICE_LEVEL = 0x2a4, 4; PORT = 0x2a8, 8; MAC = 0x2b0, 48;
        LOG_READS = 0x548, 3; NOT_READY_TIMER = 0x563, 5; FIRST_PACKET = 0x568, 24;
    }
    /// ReadyToReceive to ReadyToSend.
    rtr2rts_qp "RTR2RTS_QP" 0x504 272 16 {
        NUMBER = 0x48, 24; ACK_TIMEOUT = 0x1c0, 5; LOG_ACK_FREQUENCY = 0x440, 4; LOG_READS = 0x448, 3; RETRIES = 0x44d, 3;
        NOT_READY_RETRIES = 0x450, 3; FIRST_PACKET = 0x488, 24;
    }
    /// To Error.
    error_qp "2ERR_QP" 0x507 16 16 {
        NUMBER = 0x48, 24;
    }
    /// To Reset.
    reset_qp "2RST_QP" 0x50a 16 16 {
        NUMBER = 0x48, 24;
    }
    /// Makes a protection domain.
    alloc_pd "ALLOC_PD" 0x800 16 16 {}
    /// Makes a page of registers.
    alloc_uar "ALLOC_UAR" 0x802 16 16 {}
}

/// Fields of answers.
pub mod answer {
    use super::Field;

    const fn field(name: &'static str, start: u32, bits: u32) -> Field {
        Field { name, start, bits }
    }

    /// 0 where it was done.
    pub const STATUS: Field = field("STATUS", 0, 8);
    /// What was wrong.
    pub const SYNDROME: Field = field("SYNDROME", 32, 32);
    /// Number of what was made.
    pub const NUMBER: Field = field("NUMBER", 0x48, 24);

    /// Capabilities, group 0. All capabilities start at bit 0x80 of the answer.
    pub const LOG_MAX_QP_SIZE: Field = field("LOG_MAX_QP_SIZE", 0x108, 8);
    /// Group 0.
    pub const LOG_MAX_QP: Field = field("LOG_MAX_QP", 0x11b, 5);
    /// Group 0.
    pub const LOG_MAX_CQ_SIZE: Field = field("LOG_MAX_CQ_SIZE", 0x148, 8);
    /// Group 0.
    pub const RELAXED_ORDERING_WRITE: Field = field("RELAXED_ORDERING_WRITE", 0x168, 1);
    /// Group 0.
    pub const LOG_MAX_READS_SENDER: Field = field("LOG_MAX_READS_SENDER", 0x1ca, 6);
    /// Group 0.
    pub const LOG_MAX_READS_TARGET: Field = field("LOG_MAX_READS_TARGET", 0x1da, 6);
    /// Group 0; 1: Ethernet.
    pub const PORT_TYPE: Field = field("PORT_TYPE", 0x236, 2);
    /// Group 0.
    pub const PORTS: Field = field("PORTS", 0x238, 8);
    /// Group 0.
    pub const LOG_MAX_MESSAGE: Field = field("LOG_MAX_MESSAGE", 0x243, 5);
    /// Group 0.
    pub const ROCE: Field = field("ROCE", 0x29d, 1);
    /// Group 0.
    pub const ATOMIC: Field = field("ATOMIC", 0x29e, 1);
    /// Group 0.
    pub const PAGES_OF_4096: Field = field("PAGES_OF_4096", 0x2c0, 1);
    /// Group 0.
    pub const LOG_REGISTER: Field = field("LOG_REGISTER", 0x2eb, 5);

    /// Group 3; 1: the host's byte order.
    pub const NATIVE_8_BYTES: Field = field("NATIVE_8_BYTES", 0xc0, 2);
    /// Group 3.
    pub const ATOMIC_OPERATIONS: Field = field("ATOMIC_OPERATIONS", 0x110, 16);
    /// Group 3.
    pub const ATOMIC_SIZES: Field = field("ATOMIC_SIZES", 0x130, 16);

    /// Group 4.
    pub const TIMESTAMP_FORMATS: Field = field("TIMESTAMP_FORMATS", 0x9e, 2);
}

/// How commands end, by number.
pub mod status {
    /// Done.
    pub const OK: u8 = 0;
    /// No such command or modifier.
    pub const BAD_OPERATION: u8 = 2;
    /// A field holds what it can't.
    pub const BAD_PARAMETER: u8 = 3;
    /// No such object.
    pub const BAD_RESOURCE: u8 = 5;
    /// The object is in use.
    pub const BUSY: u8 = 6;
    /// A limit is exceeded.
    pub const LIMIT: u8 = 8;
    /// Not possible in the queue pair's state.
    pub const BAD_QUEUE_PAIR_STATE: u8 = 0x10;
    /// The command's length is wrong.
    pub const BAD_INPUT_LENGTH: u8 = 0x50;
    /// The answer's length is wrong.
    pub const BAD_OUTPUT_LENGTH: u8 = 0x51;
}
