//! Commands of the set-up: where crate `mlx5` and the emulator's tables have each field, against a third reading. The
//! commands are in none of Debian's headers, so what a C compiler made of others is kept in a file.

use shmem_hca::firmware::tables::{answer, create_cq, create_mkey, create_qp, init2rtr_qp, rst2init_qp, rtr2rts_qp};
use shmem_hca::tables::Field;
use shmem_mlx5::cmd::{self, capability, completion_queue as cq, mkey, queue_pair as qp};
use std::collections::BTreeMap;

struct Facts(BTreeMap<(&'static str, &'static str), (u32, u32)>);

impl Facts {
    fn read() -> Self {
        let lines = include_str!("probe/ifc.txt").lines().filter(|l| !l.starts_with('#'));
        let facts = lines.map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let start = u32::from_str_radix(words[2].trim_start_matches("0x"), 16).unwrap();
            ((words[0], words[1]), (start, words[3].parse().unwrap()))
        });
        Self(facts.collect())
    }

    fn get(&self, structure: &str, field: &str) -> (u32, u32) {
        let found = self.0.iter().find(|(name, _)| **name == (structure, field));
        *found.unwrap_or_else(|| panic!("no {structure}.{field}")).1
    }
}

/// A field of a structure that starts at `base` in its command.
fn same(facts: &Facts, base: u32, structure: &str, name: &str, ours: Option<cmd::Field>, emulators: &[Field]) {
    let (start, bits) = facts.get(structure, name);
    let expected = (base + start, bits);
    if let Some(ours) = ours {
        assert_eq!((ours.start, ours.bits), expected, "mlx5's {structure}.{name}");
    }
    for field in emulators {
        assert_eq!(
            (field.start, field.bits),
            expected,
            "the emulator's {} {structure}.{name}",
            field.name
        );
    }
}

#[test]
fn keys() {
    let facts = Facts::read();
    let outer = |name, ours, emulators| same(&facts, 0, "create_mkey_in", name, Some(ours), &[emulators]);
    outer("mkey_umem_valid", mkey::UMEM_VALID, create_mkey::UMEM_VALID);
    outer("mkey_umem_id", mkey::UMEM, create_mkey::UMEM);
    outer("mkey_umem_offset", mkey::UMEM_OFFSET, create_mkey::UMEM_OFFSET);
    outer(
        "translations_octword_actual_size",
        mkey::TRANSLATION_UNITS,
        create_mkey::TRANSLATION_UNITS,
    );
    let base = facts.get("create_mkey_in", "memory_key_mkey_entry").0;
    let inner = |name, ours, emulators| same(&facts, base, "mkc", name, Some(ours), &[emulators]);
    inner(
        "relaxed_ordering_write",
        mkey::RELAXED_ORDERING_WRITE,
        create_mkey::RELAXED_WRITE,
    );
    inner(
        "relaxed_ordering_read",
        mkey::RELAXED_ORDERING_READ,
        create_mkey::RELAXED_READ,
    );
    inner("a", mkey::REMOTE_ATOMIC, create_mkey::ATOMIC);
    inner("rw", mkey::REMOTE_WRITE, create_mkey::REMOTE_WRITE);
    inner("rr", mkey::REMOTE_READ, create_mkey::REMOTE_READ);
    inner("lw", mkey::LOCAL_WRITE, create_mkey::LOCAL_WRITE);
    inner("lr", mkey::LOCAL_READ, create_mkey::LOCAL_READ);
    inner("access_mode_1_0", mkey::ACCESS_MODE, create_mkey::ACCESS_MODE);
    inner("qpn", mkey::QUEUE_PAIR, create_mkey::QUEUE_PAIR);
    inner("mkey_7_0", mkey::VARIANT, create_mkey::VARIANT);
    inner("pd", mkey::DOMAIN, create_mkey::DOMAIN);
    inner("start_addr", mkey::START, create_mkey::START);
    inner("len", mkey::LENGTH, create_mkey::LENGTH);
    inner("log_page_size", mkey::LOG_PAGE_SIZE, create_mkey::LOG_PAGE);
}

#[test]
fn completion_queues() {
    let facts = Facts::read();
    let outer = |name, ours, emulators| same(&facts, 0, "create_cq_in", name, Some(ours), &[emulators]);
    outer("cq_umem_offset", cq::UMEM_OFFSET, create_cq::UMEM_OFFSET);
    outer("cq_umem_id", cq::UMEM, create_cq::UMEM);
    outer("cq_umem_valid", cq::UMEM_VALID, create_cq::UMEM_VALID);
    let base = facts.get("create_cq_in", "cq_context").0;
    let inner = |name, ours, emulators| same(&facts, base, "cqc", name, Some(ours), &[emulators]);
    inner("dbr_umem_valid", cq::RECORD_UMEM_VALID, create_cq::RECORD_UMEM_VALID);
    inner("cqe_sz", cq::SIZE, create_cq::SLOT);
    inner("cc", cq::COLLAPSED, create_cq::COLLAPSED);
    inner("oi", cq::IGNORE_OVERRUN, create_cq::IGNORE_OVERRUN);
    inner("dbr_umem_id", cq::RECORD_UMEM, create_cq::RECORD_UMEM);
    inner("log_cq_size", cq::LOG_SIZE, create_cq::LOG_SIZE);
    inner("uar_page", cq::PAGE, create_cq::PAGE);
    inner("dbr_addr", cq::RECORD_OFFSET, create_cq::RECORD_OFFSET);
    // Newer headers have the number in the last byte of a word.
    same(&facts, base, "cqc", "c_eqn", Some(cq::EVENT_QUEUE), &[]);
    let (start, bits) = (create_cq::EVENT_QUEUE.start, create_cq::EVENT_QUEUE.bits);
    assert_eq!((start + bits, bits), (cq::EVENT_QUEUE.start + 8, 32));
}

#[test]
fn queue_pairs() {
    let facts = Facts::read();
    let outer = |name, ours, emulators| same(&facts, 0, "create_qp_in", name, Some(ours), &[emulators]);
    outer("wq_umem_offset", qp::UMEM_OFFSET, create_qp::UMEM_OFFSET);
    outer("wq_umem_id", qp::UMEM, create_qp::UMEM);
    outer("wq_umem_valid", qp::UMEM_VALID, create_qp::UMEM_VALID);
    let base = facts.get("create_qp_in", "qpc").0;
    let inner = |name, ours, emulators: &[Field]| same(&facts, base, "qpc", name, Some(ours), emulators);
    inner("st", qp::SERVICE, &[create_qp::SERVICE]);
    let both = [create_qp::PATH_MIGRATION, rst2init_qp::PATH_MIGRATION];
    inner("pm_state", qp::PATH_MIGRATION, &both);
    inner("pd", qp::DOMAIN, &[create_qp::DOMAIN]);
    inner("mtu", qp::MTU, &[init2rtr_qp::MTU]);
    inner("log_msg_max", qp::LOG_MAX_MESSAGE, &[init2rtr_qp::LOG_MESSAGE]);
    inner("log_sq_size", qp::LOG_SIZE, &[create_qp::LOG_SIZE]);
    inner("ts_format", qp::TIMESTAMP_FORMAT, &[create_qp::TIMESTAMPS]);
    inner("uar_page", qp::PAGE, &[create_qp::PAGE]);
    inner("remote_qpn", qp::REMOTE, &[init2rtr_qp::REMOTE]);
    inner(
        "log_ack_req_freq",
        qp::LOG_ACK_FREQUENCY,
        &[rtr2rts_qp::LOG_ACK_FREQUENCY],
    );
    inner("log_sra_max", qp::LOG_READS_SENDER, &[rtr2rts_qp::LOG_READS]);
    inner("retry_count", qp::RETRIES, &[rtr2rts_qp::RETRIES]);
    inner("rnr_retry", qp::NOT_READY_RETRIES, &[rtr2rts_qp::NOT_READY_RETRIES]);
    inner("next_send_psn", qp::NEXT_SEND_PACKET, &[rtr2rts_qp::FIRST_PACKET]);
    inner("cqn_snd", qp::SEND_COMPLETIONS, &[create_qp::SEND_COMPLETIONS]);
    inner("log_rra_max", qp::LOG_READS_TARGET, &[init2rtr_qp::LOG_READS]);
    inner("atomic_mode", qp::ATOMIC_MODE, &[rst2init_qp::ATOMIC_MODE]);
    inner("rre", qp::REMOTE_READ, &[rst2init_qp::REMOTE_READ]);
    inner("rwe", qp::REMOTE_WRITE, &[rst2init_qp::REMOTE_WRITE]);
    inner("rae", qp::REMOTE_ATOMIC, &[rst2init_qp::REMOTE_ATOMIC]);
    inner("min_rnr_nak", qp::NOT_READY_TIMER, &[init2rtr_qp::NOT_READY_TIMER]);
    inner("next_rcv_psn", qp::NEXT_RECEIVED_PACKET, &[init2rtr_qp::FIRST_PACKET]);
    inner("cqn_rcv", qp::RECEIVE_COMPLETIONS, &[create_qp::RECEIVE_COMPLETIONS]);
    inner("dbr_addr", qp::RECORD_OFFSET, &[create_qp::RECORD_OFFSET]);
    inner("rq_type", qp::RECEIVE_QUEUE, &[create_qp::RECEIVE_QUEUE]);
    inner("dbr_umem_valid", qp::RECORD_UMEM_VALID, &[create_qp::RECORD_UMEM_VALID]);
    inner("dbr_umem_id", qp::RECORD_UMEM, &[create_qp::RECORD_UMEM]);
}

#[test]
fn paths() {
    let facts = Facts::read();
    let base = facts.get("create_qp_in", "qpc").0 + facts.get("qpc", "primary_address_path").0;
    let inner = |name, ours, emulators: &[Field]| same(&facts, base, "ads", name, Some(ours), emulators);
    inner("pkey_index", qp::PARTITION, &[rst2init_qp::PARTITION]);
    inner("grh", qp::GLOBAL, &[init2rtr_qp::GLOBAL]);
    inner("rlid", qp::REMOTE_LID, &[init2rtr_qp::LID]);
    inner("ack_timeout", qp::ACK_TIMEOUT, &[rtr2rts_qp::ACK_TIMEOUT]);
    inner("src_addr_index", qp::GID_INDEX, &[init2rtr_qp::GID_INDEX]);
    inner("hop_limit", qp::HOP_LIMIT, &[init2rtr_qp::HOPS]);
    inner("tclass", qp::TRAFFIC_CLASS, &[init2rtr_qp::TRAFFIC_CLASS]);
    inner("dscp", qp::DSCP, &[init2rtr_qp::DSCP]);
    inner("udp_sport", qp::UDP_SOURCE_PORT, &[init2rtr_qp::UDP_PORT]);
    inner("sl", qp::SERVICE_LEVEL, &[init2rtr_qp::SERVICE_LEVEL]);
    inner("vhca_port_num", qp::PORT, &[init2rtr_qp::PORT, rst2init_qp::PORT]);
    // 16 bytes in two fields here, and 6 bytes in two there.
    let (start, bits) = facts.get("ads", "rgid_rip");
    for (high, low) in [
        (
            (qp::REMOTE_GID_HIGH.start, qp::REMOTE_GID_HIGH.bits),
            (qp::REMOTE_GID_LOW.start, qp::REMOTE_GID_LOW.bits),
        ),
        (
            (init2rtr_qp::GID_HIGH.start, init2rtr_qp::GID_HIGH.bits),
            (init2rtr_qp::GID_LOW.start, init2rtr_qp::GID_LOW.bits),
        ),
    ] {
        assert_eq!((high, low), ((base + start, 64), (base + start + 64, 64)));
        assert_eq!(bits, 128);
    }
    let ((high, 16), (low, 32)) = (facts.get("ads", "rmac_47_32"), facts.get("ads", "rmac_31_0")) else {
        panic!("a MAC address is 48 bits");
    };
    assert_eq!(high + 16, low);
    assert_eq!((qp::REMOTE_MAC.start, qp::REMOTE_MAC.bits), (base + high, 48));
    assert_eq!((init2rtr_qp::MAC.start, init2rtr_qp::MAC.bits), (base + high, 48));
}

#[test]
fn capabilities() {
    use capability::{atomic, general, roce};
    let facts = Facts::read();
    let base = capability::CAPABILITIES;
    let inner = |group: &str, name, ours, emulators| same(&facts, base, group, name, Some(ours), &[emulators]);
    let caps = "cmd_hca_cap";
    inner(caps, "log_max_qp_sz", general::LOG_MAX_QP_SIZE, answer::LOG_MAX_QP_SIZE);
    inner(caps, "log_max_qp", general::LOG_MAX_QP, answer::LOG_MAX_QP);
    inner(caps, "log_max_cq_sz", general::LOG_MAX_CQ_SIZE, answer::LOG_MAX_CQ_SIZE);
    inner(
        caps,
        "relaxed_ordering_write",
        general::RELAXED_ORDERING_WRITE,
        answer::RELAXED_ORDERING_WRITE,
    );
    inner(
        caps,
        "log_max_ra_req_qp",
        general::LOG_MAX_READS_SENDER,
        answer::LOG_MAX_READS_SENDER,
    );
    inner(
        caps,
        "log_max_ra_res_qp",
        general::LOG_MAX_READS_TARGET,
        answer::LOG_MAX_READS_TARGET,
    );
    inner(caps, "port_type", general::PORT_TYPE, answer::PORT_TYPE);
    inner(caps, "num_ports", general::PORTS, answer::PORTS);
    inner(caps, "log_max_msg", general::LOG_MAX_MESSAGE, answer::LOG_MAX_MESSAGE);
    inner(caps, "roce", general::ROCE, answer::ROCE);
    inner(caps, "atomic", general::ATOMIC, answer::ATOMIC);
    inner(caps, "uar_4k", general::UAR_4K, answer::PAGES_OF_4096);
    inner(
        caps,
        "log_bf_reg_size",
        general::LOG_REGISTER_SIZE,
        answer::LOG_REGISTER,
    );
    let caps = "atomic_caps";
    inner(
        caps,
        "atomic_req_8B_endianness_mode",
        atomic::NATIVE_8_BYTES,
        answer::NATIVE_8_BYTES,
    );
    inner(caps, "atomic_operations", atomic::OPERATIONS, answer::ATOMIC_OPERATIONS);
    inner(caps, "atomic_size_qp", atomic::SIZES, answer::ATOMIC_SIZES);
    inner(
        "roce_cap",
        "qp_ts_format",
        roce::TIMESTAMP_FORMATS,
        answer::TIMESTAMP_FORMATS,
    );
}
