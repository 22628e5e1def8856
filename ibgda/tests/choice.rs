//! Which adapter: on made-up machines.

use proptest::prelude::*;
use shmem_ibgda::choice::{choose, common_bridges};
use shmem_ibgda::{Adapter, IbgdaError, Link, Port, Settings};
use shmem_mlx5::cmd::queue_pair::Mtu;

fn adapter(name: &str, path: &str, active: &[bool]) -> Adapter {
    let port = |(i, active): (usize, &bool)| Port {
        number: i as u8 + 1,
        link: Link::Ethernet,
        active: *active,
        lid: 0,
        mtu: Mtu::Bytes4096,
        partitions: 1,
        gids: vec![],
    };
    Adapter {
        name: name.into(),
        path: format!("/sys/devices/{path}"),
        ports: active.iter().enumerate().map(port).collect(),
    }
}

fn settings(gpu: &str, turn: u32) -> Settings {
    Settings {
        gpu: Some(format!("/sys/devices/{gpu}")),
        turn,
        ..Settings::default()
    }
}

/// Two sockets; on the first, a switch with an adapter and two GPUs, and another adapter at another root port.
fn machine() -> Vec<Adapter> {
    vec![
        adapter("mlx5_0", "pci0000:80/0000:80:01.0/0000:81:00.0", &[true]),
        adapter("mlx5_1", "pci0000:00/0000:00:03.0/0000:09:00.0", &[true]),
        adapter(
            "mlx5_2",
            "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
            &[true, true],
        ),
    ]
}

const SWITCHED: &str = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0";

#[test]
fn the_nearest_active_port_is_taken() {
    let mut adapters = machine();
    assert_eq!(choose(&adapters, &settings(SWITCHED, 0)).unwrap(), (2, 0));
    // Its two ports are equally near.
    assert_eq!(choose(&adapters, &settings(SWITCHED, 1)).unwrap(), (2, 1));
    assert_eq!(choose(&adapters, &settings(SWITCHED, 2)).unwrap(), (2, 0));
    adapters[2].ports[0].active = false;
    assert_eq!(choose(&adapters, &settings(SWITCHED, 0)).unwrap(), (2, 1));
    adapters[2].ports[1].active = false;
    // The same socket before the other one.
    assert_eq!(choose(&adapters, &settings(SWITCHED, 0)).unwrap(), (1, 0));
    adapters[1].ports[0].active = false;
    assert_eq!(choose(&adapters, &settings(SWITCHED, 0)).unwrap(), (0, 0));
    let gpu = "pci0000:80/0000:80:02.0/0000:85:00.0";
    assert_eq!(choose(&machine(), &settings(gpu, 0)).unwrap(), (0, 0));
}

#[test]
fn without_a_gpu_all_are_equally_near() {
    let adapters = machine();
    let turns = (0..5).map(|turn| {
        let settings = Settings {
            turn,
            ..Settings::default()
        };
        choose(&adapters, &settings).unwrap()
    });
    assert_eq!(turns.collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 0), (2, 1), (0, 0)]);
}

#[test]
fn a_list_restricts_and_the_nearest_of_it_is_taken() {
    let adapters = machine();
    for (hca, expected) in [
        ("mlx5_0", (0, 0)),
        ("mlx5_0,mlx5_1", (1, 0)),
        ("mlx5_0,mlx5_2:2", (2, 1)),
        ("mlx5_2,mlx5_0", (2, 0)),
    ] {
        let settings = Settings {
            hca: Some(hca.into()),
            ..settings(SWITCHED, 0)
        };
        assert_eq!(choose(&adapters, &settings).unwrap(), expected, "{hca}");
    }
}

#[test]
fn devices_have_in_common_what_lies_above_both() {
    let a = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    assert_eq!(common_bridges(a, a), 2);
    // Two functions of one device.
    assert_eq!(
        common_bridges(a, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1"),
        2
    );
    assert_eq!(
        common_bridges(a, "/sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0"),
        1
    );
    assert_eq!(
        common_bridges(a, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"),
        0
    );
    assert_eq!(common_bridges(a, ""), 0);
}

proptest! {
    #[test]
    fn whatever_the_machine_and_the_list_there_is_an_active_port_or_an_error(
        ports in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..3), 0..4),
        paths in prop::collection::vec("[a-c/:]{0,12}", 4),
        hca in prop::option::of("[a-c:,0-2]{0,8}"),
        gpu in prop::option::of("[a-c/:]{0,12}"),
        turn in any::<u32>(),
    ) {
        let adapters: Vec<_> = ports.iter().enumerate()
            .map(|(i, ports)| adapter(["a", "b", "c", "aa"][i], &paths[i], ports))
            .collect();
        let settings = Settings { hca, gpu, turn, ..Settings::default() };
        match choose(&adapters, &settings) {
            Ok((a, p)) => prop_assert!(adapters[a].ports[p].active),
            Err(IbgdaError::NoAdapter) => prop_assert!(adapters.is_empty()),
            Err(IbgdaError::NoActivePort { .. }) => {
                prop_assert!(settings.hca.is_some() || ports.iter().flatten().all(|active| !active));
            }
            Err(IbgdaError::Setting { .. }) => prop_assert!(settings.hca.is_some()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
