//! Commands of the set-up: what is put in comes out again, and nothing overlaps.

use shmem_mlx5::cmd::completion_queue::{self as cq, CreateCompletionQueue};
use shmem_mlx5::cmd::mkey::{self, CreateKey};
use shmem_mlx5::cmd::queue_pair::{self as qp, CreateQueuePair, Mtu, ReadyToReceive, ReadyToSend, Route};
use shmem_mlx5::cmd::{self, Field, capability, domain};

fn apart(fields: &[Field], bytes: usize) {
    for (i, a) in fields.iter().enumerate() {
        assert!((a.start + a.bits) as usize <= bytes * 8, "{a:?}");
        for b in &fields[..i] {
            assert!(
                a.start + a.bits <= b.start || b.start + b.bits <= a.start,
                "{a:?} {b:?}"
            );
        }
    }
}

/// Every bit that is set belongs to a field that is listed.
fn only(bytes: &[u8], fields: &[(Field, u64)]) {
    let mut left = bytes.to_vec();
    for (field, value) in fields {
        assert_eq!(field.get(bytes), *value, "{field:?}");
        field.set(&mut left, 0);
    }
    assert!(left.iter().all(|&b| b == 0), "{left:x?}");
    apart(&fields.iter().map(|f| f.0).collect::<Vec<_>>(), bytes.len());
}

#[test]
fn keys() {
    let key = CreateKey {
        domain: 0x12_3456,
        memory: 0x789a_bcde,
        start: 0x0102_0304_0506_0708,
        bytes: 0x11_0000,
        log_page_size: 16,
        variant: 0xef,
        relaxed: true,
    };
    only(
        &key.command(),
        &[
            (cmd::OPCODE, 0x200),
            (mkey::UMEM_VALID, 1),
            (mkey::UMEM, 0x789a_bcde),
            (mkey::TRANSLATION_UNITS, 9),
            (mkey::ACCESS_MODE, 1),
            (mkey::LOCAL_READ, 1),
            (mkey::LOCAL_WRITE, 1),
            (mkey::REMOTE_READ, 1),
            (mkey::REMOTE_WRITE, 1),
            (mkey::REMOTE_ATOMIC, 1),
            (mkey::RELAXED_ORDERING_WRITE, 1),
            (mkey::QUEUE_PAIR, 0xff_ffff),
            (mkey::VARIANT, 0xef),
            (mkey::DOMAIN, 0x12_3456),
            (mkey::START, 0x0102_0304_0506_0708),
            (mkey::LENGTH, 0x11_0000),
            (mkey::LOG_PAGE_SIZE, 16),
        ],
    );
    let strict = CreateKey { relaxed: false, ..key }.command();
    assert_eq!(mkey::RELAXED_ORDERING_WRITE.get(&strict), 0);
}

#[test]
fn completion_queues() {
    let queue = CreateCompletionQueue {
        log2: 10,
        page: 0x12_3456,
        event_queue: 0xab,
        memory: 0x1111_2222,
        offset: 0x3333_4444_5555_6666,
        record_memory: 0x7777_8888,
        record_offset: 0x9999_aaaa_bbbb_cccc,
        collapsed: true,
        ignore_overrun: true,
    };
    only(
        &queue.command(),
        &[
            (cmd::OPCODE, 0x400),
            (cq::COLLAPSED, 1),
            (cq::IGNORE_OVERRUN, 1),
            (cq::LOG_SIZE, 10),
            (cq::PAGE, 0x12_3456),
            (cq::EVENT_QUEUE, 0xab),
            (cq::RECORD_UMEM_VALID, 1),
            (cq::RECORD_UMEM, 0x7777_8888),
            (cq::RECORD_OFFSET, 0x9999_aaaa_bbbb_cccc),
            (cq::UMEM_VALID, 1),
            (cq::UMEM, 0x1111_2222),
            (cq::UMEM_OFFSET, 0x3333_4444_5555_6666),
        ],
    );
}

#[test]
fn queue_pairs() {
    let queue = CreateQueuePair {
        domain: 0x11_2233,
        page: 0x44_5566,
        completions: 0x77_8899,
        log2: 15,
        memory: 0x1111_2222,
        offset: 0x3333_4444_5555_6666,
        record_memory: 0x7777_8888,
        record_offset: 0x9999_aaaa_bbbb_cccc,
        timestamp_format: 1,
    };
    only(
        &queue.command(),
        &[
            (cmd::OPCODE, 0x500),
            (qp::SERVICE, 0),
            (qp::PATH_MIGRATION, 3),
            (qp::DOMAIN, 0x11_2233),
            (qp::PAGE, 0x44_5566),
            (qp::SEND_COMPLETIONS, 0x77_8899),
            (qp::RECEIVE_COMPLETIONS, 0x77_8899),
            (qp::LOG_SIZE, 15),
            (qp::RECEIVE_QUEUE, 3),
            (qp::TIMESTAMP_FORMAT, 1),
            (qp::RECORD_UMEM_VALID, 1),
            (qp::RECORD_UMEM, 0x7777_8888),
            (qp::RECORD_OFFSET, 0x9999_aaaa_bbbb_cccc),
            (qp::UMEM_VALID, 1),
            (qp::UMEM, 0x1111_2222),
            (qp::UMEM_OFFSET, 0x3333_4444_5555_6666),
        ],
    );
    only(
        &qp::init(0x12_3456, 2, 7),
        &[
            (cmd::OPCODE, 0x502),
            (qp::NUMBER, 0x12_3456),
            (qp::PATH_MIGRATION, 3),
            (qp::ATOMIC_MODE, 3),
            (qp::REMOTE_READ, 1),
            (qp::REMOTE_WRITE, 1),
            (qp::REMOTE_ATOMIC, 1),
            (qp::PORT, 2),
            (qp::PARTITION, 7),
        ],
    );
}

#[test]
fn connections() {
    let mut ready = ReadyToReceive {
        number: 0x12_3456,
        remote: 0x65_4321,
        port: 1,
        mtu: Mtu::Bytes4096,
        log_reads: 4,
        route: Route::InfiniBand {
            lid: 0x1234,
            service_level: 3,
        },
    };
    let common = [
        (cmd::OPCODE, 0x503),
        (qp::NUMBER, 0x12_3456),
        (qp::REMOTE, 0x65_4321),
        (qp::PORT, 1),
        (qp::MTU, 5),
        (qp::LOG_MAX_MESSAGE, 30),
        (qp::LOG_READS_TARGET, 4),
        (qp::NOT_READY_TIMER, 12),
    ];
    let route = [(qp::REMOTE_LID, 0x1234), (qp::SERVICE_LEVEL, 3)];
    only(&ready.command(), &[&common[..], &route[..]].concat());
    ready.route = Route::InfiniBandRouted {
        lid: 0x1234,
        service_level: 3,
        gid: std::array::from_fn(|i| i as u8 + 1),
        gid_index: 3,
        hop_limit: 64,
    };
    let route = [
        (qp::REMOTE_LID, 0x1234),
        (qp::SERVICE_LEVEL, 3),
        (qp::GLOBAL, 1),
        (qp::REMOTE_GID_HIGH, 0x0102_0304_0506_0708),
        (qp::REMOTE_GID_LOW, 0x090a_0b0c_0d0e_0f10),
        (qp::GID_INDEX, 3),
        (qp::HOP_LIMIT, 64),
    ];
    only(&ready.command(), &[&common[..], &route[..]].concat());
    ready.route = Route::Roce {
        gid: std::array::from_fn(|i| i as u8 + 1),
        mac: [0xa, 0xb, 0xc, 0xd, 0xe, 0xf],
        gid_index: 3,
        hop_limit: 64,
        traffic_class: 0x60,
        udp_source_port: 0xc123,
    };
    let route = [
        (qp::REMOTE_GID_HIGH, 0x0102_0304_0506_0708),
        (qp::REMOTE_GID_LOW, 0x090a_0b0c_0d0e_0f10),
        (qp::REMOTE_MAC, 0x0a0b_0c0d_0e0f),
        (qp::GID_INDEX, 3),
        (qp::HOP_LIMIT, 64),
        (qp::TRAFFIC_CLASS, 0x60),
        (qp::DSCP, 0x18),
        (qp::UDP_SOURCE_PORT, 0xc123),
    ];
    only(&ready.command(), &[&common[..], &route[..]].concat());
    let send = ReadyToSend {
        number: 0x12_3456,
        log_reads: 4,
        retries: 7,
        ack_timeout: 20,
    };
    only(
        &send.command(),
        &[
            (cmd::OPCODE, 0x504),
            (qp::NUMBER, 0x12_3456),
            (qp::LOG_READS_SENDER, 4),
            (qp::RETRIES, 7),
            (qp::NOT_READY_RETRIES, 7),
            (qp::ACK_TIMEOUT, 20),
        ],
    );
    only(&qp::to_error(5), &[(cmd::OPCODE, 0x507), (qp::NUMBER, 5)]);
    only(&qp::to_reset(5), &[(cmd::OPCODE, 0x50a), (qp::NUMBER, 5)]);
}

#[test]
fn the_rest() {
    only(&domain::alloc_domain(), &[(cmd::OPCODE, 0x800)]);
    only(&domain::alloc_page(), &[(cmd::OPCODE, 0x802)]);
    only(
        &capability::query(capability::Group::General),
        &[(cmd::OPCODE, 0x100), (cmd::MODIFIER, 1)],
    );
    only(
        &capability::query(capability::Group::Atomic),
        &[(cmd::OPCODE, 0x100), (cmd::MODIFIER, 7)],
    );
    let mut answer = [0; capability::ANSWER_BYTES];
    capability::general::ROCE.set(&mut answer, 1);
    assert_eq!(capability::general::ROCE.get(&answer), 1);
}
