//! The bindings against what a C compiler makes of Debian's `infiniband/verbs.h` and `mlx5dv.h`.

use shmem_ibgda::verbs::sys::{
    self, AhAttr, Av, ContextAttr, DvAh, DvObj, DvPd, GidEntry, Mr, PortAttr, Uar, Umem, UmemIn,
};
use shmem_mlx5::cmd::queue_pair::Mtu;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

/// What the C program printed: `kind name` to the rest of the line.
fn probe() -> Option<BTreeMap<String, String>> {
    let header = "/usr/include/infiniband/mlx5dv.h";
    if !std::path::Path::new(header).exists() {
        eprintln!("skipped: no {header} (Debian: libibverbs-dev; `cargo xtask setup` installs it)");
        return None;
    }
    let program = std::env::temp_dir().join(format!("verbs-layout-{}", std::process::id()));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/verbs.c");
    let built = Command::new(&compiler)
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .args([source, "-lmlx5", "-libverbs"])
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
    Some(lines.collect())
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let Some(mut facts) = probe() else { return };
    let mut take = |name: String| {
        facts
            .remove(&name)
            .unwrap_or_else(|| panic!("the probe does not print {name}"))
    };
    macro_rules! structure { ($c:ident, $ours:ident, $($field:ident $(. $inner:ident)? => $member:ident, $size:expr;)*) => {
        let theirs: usize = take(format!("size {}", stringify!($c))).parse().unwrap();
        // What newer versions have grown by is behind the end.
        let room = if stringify!($c) == "ibv_port_attr" { 32 } else { 0 };
        // C rounds up to the structure's alignment. What is only handed in may be longer in newer versions, which look at its
        // mask of valid fields first.
        let (ours, handed_in) = (size_of::<sys::$ours>() - room, stringify!($c) == "mlx5dv_context_attr");
        assert!(ours.next_multiple_of(4) == theirs || handed_in && ours <= theirs, "{}: {ours}, {theirs}", stringify!($c));
        $(
            let name = concat!(stringify!($c), ".", stringify!($field $(. $inner)?)).replace(' ', "");
            let expected = format!("{} {}", offset_of!($ours, $member), $size);
            assert_eq!(take(format!("field {name}")), expected, "{name}");
        )*
    } }
    structure!(ibv_port_attr, PortAttr,
        state => state, 4; active_mtu => active_mtu, 4; gid_tbl_len => gid_tbl_len, 4; lid => lid, 2;
        link_layer => link_layer, 1; port_cap_flags2 => port_cap_flags2, 2;);
    structure!(ibv_gid_entry, GidEntry,
        gid => gid, 16; gid_index => gid_index, 4; port_num => port_num, 4; gid_type => gid_type, 4;);
    structure!(ibv_mr, Mr, lkey => lkey, 4; rkey => rkey, 4;);
    structure!(ibv_ah_attr, AhAttr,
        grh => dgid, 24; grh.dgid => dgid, 16; grh.sgid_index => sgid_index, 1; grh.hop_limit => hop_limit, 1;
        dlid => dlid, 2; is_global => is_global, 1; port_num => port_num, 1;);
    structure!(mlx5dv_context_attr, ContextAttr, flags => flags, 4; comp_mask => comp_mask, 8;);
    structure!(mlx5dv_pd, DvPd, pdn => pdn, 4; comp_mask => comp_mask, 8;);
    structure!(mlx5_wqe_av, Av, rmac => rmac, 6; rgid => rgid, 16;);
    structure!(mlx5dv_ah, DvAh, av => av, 8;);
    structure!(mlx5dv_obj, DvObj, ah.in => ah, 8; ah.out => ah_out, 8; pd.in => pd, 8; pd.out => pd_out, 8;);
    structure!(mlx5dv_devx_umem, Umem, umem_id => umem_id, 4;);
    structure!(mlx5dv_devx_umem_in, UmemIn,
        addr => addr, 8; size => size, 8; access => access, 4; pgsz_bitmap => pgsz_bitmap, 8;
        comp_mask => comp_mask, 8; dmabuf_fd => dmabuf_fd, 4;);
    structure!(mlx5dv_devx_uar, Uar,
        reg_addr => reg_addr, 8; base_addr => base_addr, 8; page_id => page_id, 4; comp_mask => comp_mask, 8;);
    for (name, ours) in [
        ("IBV_PORT_ACTIVE", sys::PORT_ACTIVE as u64),
        ("IBV_LINK_LAYER_INFINIBAND", sys::LINK_INFINIBAND.into()),
        ("IBV_LINK_LAYER_ETHERNET", sys::LINK_ETHERNET.into()),
        ("IBV_GID_TYPE_IB", sys::GID_IB.into()),
        ("IBV_GID_TYPE_ROCE_V1", sys::GID_ROCE_V1.into()),
        ("IBV_GID_TYPE_ROCE_V2", sys::GID_ROCE_V2.into()),
        ("IBV_MTU_256", Mtu::Bytes256 as u64),
        ("IBV_MTU_4096", Mtu::Bytes4096 as u64),
        ("IBV_ACCESS_LOCAL_WRITE", sys::ACCESS_LOCAL_WRITE.into()),
        ("IBV_ACCESS_REMOTE_WRITE", sys::ACCESS_REMOTE_WRITE.into()),
        ("IBV_ACCESS_REMOTE_READ", sys::ACCESS_REMOTE_READ.into()),
        ("IBV_ACCESS_REMOTE_ATOMIC", sys::ACCESS_REMOTE_ATOMIC.into()),
        ("MLX5DV_CONTEXT_FLAGS_DEVX", sys::CONTEXT_DEVX.into()),
        ("MLX5DV_OBJ_AH", sys::OBJ_AH),
        ("MLX5DV_OBJ_PD", sys::OBJ_PD),
        ("MLX5DV_UMEM_MASK_DMABUF", sys::UMEM_DMABUF),
        ("MLX5DV_UAR_ALLOC_TYPE_NC", sys::UAR_NC.into()),
    ] {
        assert_eq!(take(format!("constant {name}")), ours.to_string(), "{name}");
    }
    assert_eq!(facts, BTreeMap::new(), "the probe prints what nobody compares");
}
