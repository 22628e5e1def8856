//! Two readings of the manual against a third: the crate that builds entries and the emulator's tables, each compared with
//! what a C compiler makes of Debian's `infiniband/mlx5dv.h`.

use shmem_hca::decode;
use shmem_hca::tables::error_completion as error;
use shmem_hca::tables::{
    self, Field, Layout, atomic, completion, control, inline, kind, opcode, pointer, remote, syndrome,
};
use shmem_mlx5::completion::{Completion as Done, ErrorCompletion as Failed, Kind, Syndrome, Tail};
use shmem_mlx5::segment::{Atomic, Control, DataPointer, InlineHeader as Inline, RemoteAddress as Remote, flags};
use shmem_mlx5::{Index, Length, Local, LocalKey, Opcode, QueuePair, doorbell, unit};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

/// What the C program printed: `kind name` to the rest of the line.
struct Facts(BTreeMap<String, String>);

impl Facts {
    /// None, with the reason, where there is no compiler or no header.
    fn probe() -> Option<Self> {
        let header = "/usr/include/infiniband/mlx5dv.h";
        if !std::path::Path::new(header).exists() {
            eprintln!("skipped: no {header} (Debian: libibverbs-dev; `cargo xtask setup` installs it)");
            return None;
        }
        let program = std::env::temp_dir().join(format!("mlx5-layout-{}", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/layout.c");
        let built = Command::new(&compiler)
            .args(["-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(source)
            .status();
        match built {
            Ok(status) => assert!(status.success(), "{compiler} does not compile {source}"),
            Err(error) => {
                eprintln!("skipped: no C compiler: {compiler}: {error}");
                return None;
            }
        }
        let output = Command::new(&program).output().expect("the probe runs");
        std::fs::remove_file(&program).expect("the probe is there");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("text");
        let lines = text.lines().map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().expect("three words").to_owned();
            (format!("{} {}", word(), word()), word())
        });
        Some(Self(lines.collect()))
    }

    fn take(&mut self, name: &str) -> String {
        self.0
            .remove(name)
            .unwrap_or_else(|| panic!("the probe does not print {name}"))
    }

    fn size(&mut self, name: &str, ours: usize, layout: &Layout) {
        let theirs: usize = self.take(&format!("size {name}")).parse().unwrap();
        assert_eq!((ours, layout.bytes), (theirs, theirs), "size of {name}");
    }

    /// A member of a C structure: where crate `mlx5` has it, and the emulator's fields that fill it.
    fn field(&mut self, name: &str, ours: usize, fields: &[Field]) {
        let text = self.take(&format!("field {name}"));
        let (offset, size) = text.split_once(' ').unwrap();
        let (offset, size): (usize, usize) = (offset.parse().unwrap(), size.parse().unwrap());
        assert_eq!(ours, offset, "mlx5's {name}");
        assert_eq!(fields[0].start as usize, offset * 8, "the emulator's {name}");
        let bits: u32 = fields.iter().map(|f| f.bits).sum();
        assert_eq!(bits as usize, size * 8, "the emulator's {name}");
    }

    fn constant(&mut self, name: &str, ours: u64, emulators: u64) {
        let theirs: u64 = self.take(&format!("constant {name}")).parse().unwrap();
        assert_eq!((ours, emulators), (theirs, theirs), "{name}");
    }

    fn bytes(&mut self, name: &str) -> Vec<u8> {
        let text = self.take(&format!("bytes {name}"));
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
            .collect()
    }
}

fn segments(facts: &mut Facts) {
    facts.size("mlx5_wqe_ctrl_seg", size_of::<Control>(), &control::LAYOUT);
    let at = "mlx5_wqe_ctrl_seg.opmod_idx_opcode";
    let fields = [control::MODIFIER, control::INDEX, control::OPCODE];
    facts.field(at, offset_of!(Control, modifier_index_opcode), &fields);
    let fields = [control::QUEUE_PAIR, control::RESERVED_56, control::UNITS];
    facts.field(
        "mlx5_wqe_ctrl_seg.qpn_ds",
        offset_of!(Control, queue_pair_units),
        &fields,
    );
    // Three members are one word to mlx5.
    let word = offset_of!(Control, signature_stream_flags);
    facts.field("mlx5_wqe_ctrl_seg.signature", word, &[control::SIGNATURE]);
    facts.field("mlx5_wqe_ctrl_seg.dci_stream_channel_id", word + 1, &[control::STREAM]);
    let fields = [
        control::FENCE,
        control::RESERVED_91,
        control::COMPLETION,
        control::SOLICITED,
        control::RESERVED_95,
    ];
    facts.field("mlx5_wqe_ctrl_seg.fm_ce_se", word + 3, &fields);
    facts.field(
        "mlx5_wqe_ctrl_seg.imm",
        offset_of!(Control, immediate),
        &[control::IMMEDIATE],
    );

    facts.size("mlx5_wqe_raddr_seg", size_of::<Remote>(), &remote::LAYOUT);
    facts.field(
        "mlx5_wqe_raddr_seg.raddr",
        offset_of!(Remote, address),
        &[remote::ADDRESS],
    );
    facts.field("mlx5_wqe_raddr_seg.rkey", offset_of!(Remote, key), &[remote::KEY]);
    facts.field(
        "mlx5_wqe_raddr_seg.reserved",
        offset_of!(Remote, reserved),
        &[remote::RESERVED_96],
    );

    facts.size("mlx5_wqe_data_seg", size_of::<DataPointer>(), &pointer::LAYOUT);
    let fields = [pointer::INLINE, pointer::BYTES];
    facts.field("mlx5_wqe_data_seg.byte_count", offset_of!(DataPointer, bytes), &fields);
    facts.field("mlx5_wqe_data_seg.lkey", offset_of!(DataPointer, key), &[pointer::KEY]);
    facts.field(
        "mlx5_wqe_data_seg.addr",
        offset_of!(DataPointer, address),
        &[pointer::ADDRESS],
    );

    facts.size("mlx5_wqe_inl_data_seg", size_of::<Inline>(), &inline::LAYOUT);
    let fields = [inline::INLINE, inline::BYTES];
    facts.field("mlx5_wqe_inl_data_seg.byte_count", offset_of!(Inline, bytes), &fields);

    facts.size("mlx5_wqe_atomic_seg", size_of::<Atomic>(), &atomic::LAYOUT);
    facts.field(
        "mlx5_wqe_atomic_seg.swap_add",
        offset_of!(Atomic, swap_add),
        &[atomic::SWAP_ADD],
    );
    facts.field(
        "mlx5_wqe_atomic_seg.compare",
        offset_of!(Atomic, compare),
        &[atomic::COMPARE],
    );
}

fn completions(facts: &mut Facts) {
    facts.size("mlx5_cqe64", size_of::<Done>(), &completion::LAYOUT);
    facts.field(
        "mlx5_cqe64.srqn_uidx",
        offset_of!(Done, user_index),
        &[completion::USER_INDEX],
    );
    facts.field(
        "mlx5_cqe64.imm_inval_pkey",
        offset_of!(Done, immediate),
        &[completion::IMMEDIATE],
    );
    // Four members are one word here.
    let text = facts.take("field mlx5_cqe64.app");
    assert_eq!(text, format!("{} 1", offset_of!(Done, application)));
    assert_eq!(text, format!("{} 1", completion::APPLICATION.start / 8));
    facts.field("mlx5_cqe64.byte_cnt", offset_of!(Done, bytes), &[completion::BYTES]);
    facts.field(
        "mlx5_cqe64.timestamp",
        offset_of!(Done, timestamp),
        &[completion::TIMESTAMP],
    );
    let fields = [completion::ENTRY_OPCODE, completion::QUEUE_PAIR];
    facts.field("mlx5_cqe64.sop_drop_qpn", offset_of!(Done, opcode_queue_pair), &fields);
    facts.field("mlx5_cqe64.wqe_counter", offset_of!(Done, index), &[completion::INDEX]);
    facts.field(
        "mlx5_cqe64.signature",
        offset_of!(Done, signature),
        &[completion::SIGNATURE],
    );
    let fields = [
        completion::KIND,
        completion::FORMAT,
        completion::SOLICITED,
        completion::OWNER,
    ];
    facts.field("mlx5_cqe64.op_own", offset_of!(Done, opcode_owner), &fields);

    facts.size("mlx5_err_cqe", size_of::<Failed>(), &error::LAYOUT);
    facts.field(
        "mlx5_err_cqe.srqn",
        offset_of!(Failed, receive_queue),
        &[error::RECEIVE_QUEUE],
    );
    facts.field(
        "mlx5_err_cqe.vendor_err_synd",
        offset_of!(Failed, vendor),
        &[error::VENDOR],
    );
    facts.field(
        "mlx5_err_cqe.syndrome",
        offset_of!(Failed, syndrome),
        &[error::SYNDROME],
    );
    let fields = [error::ENTRY_OPCODE, error::QUEUE_PAIR];
    facts.field(
        "mlx5_err_cqe.s_wqe_opcode_qpn",
        offset_of!(Failed, opcode_queue_pair),
        &fields,
    );
    facts.field("mlx5_err_cqe.wqe_counter", offset_of!(Failed, index), &[error::INDEX]);
    facts.field(
        "mlx5_err_cqe.signature",
        offset_of!(Failed, signature),
        &[error::SIGNATURE],
    );
    let fields = [error::KIND, error::FORMAT, error::SOLICITED, error::OWNER];
    facts.field("mlx5_err_cqe.op_own", offset_of!(Failed, opcode_owner), &fields);
}

fn opcodes_and_kinds(facts: &mut Facts) {
    let opcodes = [
        ("NOP", Opcode::Nop, opcode::NOP),
        ("RDMA_WRITE", Opcode::Write, opcode::WRITE),
        ("RDMA_WRITE_IMM", Opcode::WriteImmediate, opcode::WRITE_IMMEDIATE),
        ("SEND", Opcode::Send, opcode::SEND),
        ("SEND_IMM", Opcode::SendImmediate, opcode::SEND_IMMEDIATE),
        ("RDMA_READ", Opcode::Read, opcode::READ),
        ("ATOMIC_CS", Opcode::CompareSwap, opcode::COMPARE_SWAP),
        ("ATOMIC_FA", Opcode::FetchAdd, opcode::FETCH_ADD),
        (
            "ATOMIC_MASKED_CS",
            Opcode::MaskedCompareSwap,
            opcode::MASKED_COMPARE_SWAP,
        ),
        ("ATOMIC_MASKED_FA", Opcode::MaskedFetchAdd, opcode::MASKED_FETCH_ADD),
    ];
    assert_eq!(opcodes.map(|(_, ours, _)| ours), Opcode::ALL);
    for (name, ours, emulators) in opcodes {
        facts.constant(&format!("MLX5_OPCODE_{name}"), ours as u64, u64::from(emulators));
    }
    let kinds = [
        ("REQ", Kind::Request, kind::REQUEST),
        ("REQ_ERR", Kind::RequestError, kind::REQUEST_ERROR),
        ("INVALID", Kind::Invalid, kind::INVALID),
        // The emulator has no receives.
        (
            "RESP_WR_IMM",
            Kind::ReceivedWriteImmediate,
            Kind::ReceivedWriteImmediate as u8,
        ),
        ("RESP_SEND", Kind::ReceivedSend, Kind::ReceivedSend as u8),
        (
            "RESP_SEND_IMM",
            Kind::ReceivedSendImmediate,
            Kind::ReceivedSendImmediate as u8,
        ),
        ("RESP_ERR", Kind::ReceiveError, Kind::ReceiveError as u8),
    ];
    for (name, ours, emulators) in kinds {
        facts.constant(&format!("MLX5_CQE_{name}"), ours as u64, u64::from(emulators));
        let tail = Tail::from_bytes([0, 0, 0, (ours as u8) << 4]);
        assert_eq!(tail.kind(), Some(ours));
    }
    facts.constant("MLX5_CQE_OWNER_MASK", 1, 1);
}

fn syndromes(facts: &mut Facts) {
    // Those that the emulator never gives are compared with mlx5 alone.
    let only = |s: Syndrome| s.code();
    let syndromes = [
        ("LOCAL_LENGTH_ERR", Syndrome::LocalLength, syndrome::LOCAL_LENGTH),
        (
            "LOCAL_QP_OP_ERR",
            Syndrome::LocalQueuePairOperation,
            syndrome::LOCAL_OPERATION,
        ),
        ("LOCAL_PROT_ERR", Syndrome::LocalProtection, syndrome::LOCAL_PROTECTION),
        ("WR_FLUSH_ERR", Syndrome::Flushed, syndrome::FLUSHED),
        (
            "MW_BIND_ERR",
            Syndrome::MemoryWindowBind,
            only(Syndrome::MemoryWindowBind),
        ),
        ("BAD_RESP_ERR", Syndrome::BadResponse, only(Syndrome::BadResponse)),
        ("LOCAL_ACCESS_ERR", Syndrome::LocalAccess, only(Syndrome::LocalAccess)),
        (
            "REMOTE_INVAL_REQ_ERR",
            Syndrome::RemoteInvalidRequest,
            syndrome::REMOTE_INVALID,
        ),
        ("REMOTE_ACCESS_ERR", Syndrome::RemoteAccess, syndrome::REMOTE_ACCESS),
        ("REMOTE_OP_ERR", Syndrome::RemoteOperation, syndrome::REMOTE_OPERATION),
        ("TRANSPORT_RETRY_EXC_ERR", Syndrome::RetriesExceeded, syndrome::RETRIES),
        ("RNR_RETRY_EXC_ERR", Syndrome::ReceiverNotReady, syndrome::NOT_READY),
        (
            "REMOTE_ABORTED_ERR",
            Syndrome::RemoteAborted,
            only(Syndrome::RemoteAborted),
        ),
    ];
    assert_eq!(syndromes.map(|(_, ours, _)| ours), Syndrome::ALL);
    for (name, ours, emulators) in syndromes {
        let name = format!("MLX5_CQE_SYNDROME_{name}");
        facts.constant(&name, u64::from(ours.code()), u64::from(emulators));
        assert_eq!(Syndrome::from_u8(ours.code()), ours);
    }
}

fn flags_and_sizes(facts: &mut Facts) {
    // The emulator's reading of a flag: the field's value, where the field is.
    let flag = |field: Field, value: u64| {
        let mut bytes = [0; 16];
        field.set(&mut bytes, value);
        u64::from(bytes[11])
    };
    facts.constant(
        "MLX5_WQE_CTRL_CQ_UPDATE",
        flags::COMPLETION.into(),
        flag(control::COMPLETION, 2),
    );
    facts.constant(
        "MLX5_WQE_CTRL_SOLICITED",
        flags::SOLICITED.into(),
        flag(control::SOLICITED, 1),
    );
    facts.constant("MLX5_WQE_CTRL_FENCE", flags::FENCE.into(), flag(control::FENCE, 4));
    let small = "MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE";
    facts.constant(small, flags::SMALL_FENCE.into(), flag(control::FENCE, 1));
    facts.constant("MLX5_SEND_WQE_BB", unit::BLOCK as u64, tables::BLOCK as u64);
    let shift = |x: usize| u64::from(x.ilog2());
    facts.constant("MLX5_SEND_WQE_SHIFT", shift(unit::BLOCK), shift(tables::BLOCK));
    let mut header = [0; 4];
    tables::inline::INLINE.set(&mut header, 1);
    let emulators = u64::from(u32::from_be_bytes(header));
    facts.constant("MLX5_INLINE_SEG", Inline::INLINE.into(), emulators);
    // Words of the record.
    facts.constant("MLX5_RCV_DBR", doorbell::RECEIVE_OFFSET as u64 / 4, 0);
    facts.constant(
        "MLX5_SND_DBR",
        doorbell::SEND_OFFSET as u64 / 4,
        tables::SEND_RECORD / 4,
    );
}

/// What the header's own functions build, built and read here.
fn built(facts: &mut Facts) {
    let theirs = facts.bytes("control");
    let ours = Control::new(
        Index::new(0xabcd),
        Opcode::MaskedCompareSwap,
        shmem_mlx5::opcode::extended_atomic(3),
        QueuePair::new(0x12_3456).unwrap(),
        0x25,
        flags::COMPLETION | flags::FENCE,
    );
    assert_eq!(ours.unit().to_bytes()[..], theirs);
    let mut block = [0; 64];
    block[..16].copy_from_slice(&theirs);
    let head = decode::head(&block, 0xabcd, 0x12_3456).unwrap();
    assert_eq!((head.units, head.blocks), (0x25, 10));
    assert_eq!(control::OPCODE.get(&theirs) as u8, tables::opcode::MASKED_COMPARE_SWAP);
    assert_eq!(control::MODIFIER.get(&theirs) as u8, tables::EXTENDED_8);
    assert_eq!((control::FENCE.get(&theirs), control::COMPLETION.get(&theirs)), (4, 2));

    let theirs = facts.bytes("data");
    let place = Local {
        address: 0x1112_1314_1516_1718,
        key: LocalKey(0x0506_0708),
    };
    let ours = DataPointer::new(place, Length::new(0x0102_0304).unwrap());
    assert_eq!(ours.unit().to_bytes()[..], theirs);
    let emulators = [pointer::BYTES, pointer::KEY, pointer::ADDRESS].map(|f| f.get(&theirs));
    assert_eq!(emulators, [0x0102_0304, 0x0506_0708, 0x1112_1314_1516_1718]);

    let theirs: [u8; 64] = facts.bytes("completion").try_into().unwrap();
    let done = Done::from_bytes(&theirs);
    let tail = Tail::from_bytes(theirs[60..].try_into().unwrap());
    assert_eq!(
        (tail.index(), tail.kind()),
        (Index::new(0x1234), Some(Kind::RequestError))
    );
    assert_eq!(done.index.get(), 0x1234);
    assert_eq!(done.opcode_queue_pair.get(), (Opcode::Read as u32) << 24 | 0x12_3456);
    assert_eq!(
        (done.bytes.get(), done.timestamp.get()),
        (0x2122_2324, 0x3132_3334_3536_3738)
    );
    let emulators = [completion::KIND, completion::OWNER].map(|f| f.get(&theirs));
    facts.constant("OPCODE_OF_COMPLETION", tail.kind().unwrap() as u64, emulators[0]);
    facts.constant("OWNER_OF_COMPLETION", tail.owner().into(), emulators[1]);
    assert_eq!(completion::ENTRY_OPCODE.get(&theirs) as u8, tables::opcode::READ);
    assert_eq!(completion::QUEUE_PAIR.get(&theirs), 0x12_3456);

    let theirs: [u8; 64] = facts.bytes("error").try_into().unwrap();
    let failed = Failed::from_bytes(&theirs);
    let found = Syndrome::from_u8(failed.syndrome);
    assert_eq!((found, failed.vendor), (Syndrome::RetriesExceeded, 0x96));
    let word = theirs[shmem_mlx5::completion::DETAIL_OFFSET..][..4].try_into().unwrap();
    assert_eq!(shmem_mlx5::completion::detail(u32::from_ne_bytes(word)), (found, 0x96));
    assert_eq!(error::SYNDROME.get(&theirs) as u8, tables::syndrome::RETRIES);
    assert_eq!(error::VENDOR.get(&theirs), 0x96);
}

#[test]
fn both_readings_agree_with_the_header() {
    let Some(mut facts) = Facts::probe() else {
        return;
    };
    segments(&mut facts);
    completions(&mut facts);
    opcodes_and_kinds(&mut facts);
    syndromes(&mut facts);
    flags_and_sizes(&mut facts);
    built(&mut facts);
    assert!(facts.0.is_empty(), "printed and not compared: {:?}", facts.0.keys());
}
