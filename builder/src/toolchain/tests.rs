//! The search among compilers made of shell script.

use std::{fs, path::PathBuf, sync::MutexGuard};

use super::{Reason, Search, probe::Version};
use crate::{
    TARGET,
    files::Scratch,
    testing::{self, script},
};

struct Machine {
    root: Scratch,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let turn = testing::turn();
        Self {
            root: Scratch::new(testing::dir(name)).unwrap(),
            _turn: turn,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// A compiler at `<sysroot>/bin/rustc`.
    fn rustc(&self, sysroot: &str, release: &str, target: &str) -> PathBuf {
        let sysroot = self.path(sysroot);
        let rustc = sysroot.join("bin/rustc");
        let text = format!(
            "if [ \"$1\" = -vV ]; then echo 'rustc {release} (fake)'; echo 'release: {release}'\n\
             else echo '{}'; echo '{target}'; fi",
            sysroot.display(),
        );
        script(&rustc, &text);
        rustc
    }

    fn library(&self, sysroot: &str) {
        self.file(&format!("{sysroot}/lib/rustlib/src/rust/library/core/src/lib.rs"));
    }

    fn file(&self, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    /// Nothing but what the test adds.
    fn search(&self) -> Search {
        Search {
            explicit: None,
            active: self.path("missing/rustc").into(),
            rustup_home: Some(self.path("rustup")),
            system: vec![self.path("usr/bin/rustc")],
            sources: self.path("src"),
        }
    }
}

#[test]
fn the_active_one_goes_first_then_the_newest_of_rustup_then_the_system() {
    let machine = Machine::new("order");
    for sysroot in ["active", "rustup/toolchains/1.96.0", "rustup/toolchains/1.100.0", "usr"] {
        machine.library(sysroot);
    }
    let active = machine.rustc("active", "1.96.0", TARGET);
    let newest = machine.rustc("rustup/toolchains/1.100.0", "1.100.0", TARGET);
    let older = machine.rustc("rustup/toolchains/1.96.0", "1.96.0", TARGET);
    let system = machine.rustc("usr", "1.98.0", TARGET);
    let mut search = machine.search();
    let found = |search: &Search| search.run().unwrap().rustc;

    search.active = active.clone().into();
    assert_eq!(found(&search), active);
    search.active = machine.path("missing/rustc").into();
    assert_eq!(found(&search), newest);
    fs::remove_file(&newest).unwrap();
    assert_eq!(found(&search), older);
    fs::remove_file(&older).unwrap();
    assert_eq!(found(&search), system);
}

#[test]
fn an_explicit_choice_is_the_only_candidate() {
    let machine = Machine::new("explicit");
    machine.library("usr");
    machine.rustc("usr", "1.96.0", TARGET);
    let mut search = machine.search();
    assert!(search.run().is_ok());

    search.explicit = Some(machine.rustc("old", "1.95.0", TARGET).into());
    let not_found = search.run().unwrap_err();
    assert_eq!(not_found.turned_down.len(), 1);
    assert!(matches!(not_found.turned_down[0].reason, Reason::TooOld(_)));
    assert!(
        not_found
            .to_string()
            .starts_with("SHMEM_DEVICE_RUSTC names no compiler")
    );

    let old = machine.path("old/bin/rustc").display().to_string();
    assert!(not_found.summary().contains(&format!("{old}: 1.95.0 is too old")));

    search.explicit = Some(machine.path("missing/rustc").into());
    let summary = search.run().unwrap_err().summary();
    assert!(
        summary.contains("missing/rustc: does not work: No such file"),
        "{summary}"
    );

    search.explicit = Some("none".into());
    let not_found = search.run().unwrap_err();
    assert!(not_found.explicit && not_found.turned_down.is_empty());
    assert!(not_found.to_string().starts_with("SHMEM_DEVICE_RUSTC=none"));
}

#[test]
fn every_refusal_has_its_reason() {
    let machine = Machine::new("reasons");
    machine.library("rustup/toolchains/no-target");
    machine.rustc("rustup/toolchains/no-target", "1.97.0", "x86_64-unknown-linux-gnu");
    machine.rustc("rustup/toolchains/no-source", "1.96.0", TARGET);
    machine.library("rustup/toolchains/pre");
    machine.rustc("rustup/toolchains/pre", "1.96.0-nightly", TARGET);
    script(&machine.path("usr/bin/rustc"), "echo broken >&2; exit 3\n");
    let not_found = machine.search().run().unwrap_err();

    let reasons: Vec<_> = not_found.turned_down.iter().map(|no| &no.reason).collect();
    assert!(
        matches!(
            reasons[..],
            [
                Reason::DoesNotRun(_),
                Reason::NoTarget(Version { minor: 97, .. }),
                Reason::NoLibrarySource(..),
                Reason::TooOld(Version { pre: Some(_), .. }),
                Reason::DoesNotRun(_),
            ]
        ),
        "{reasons:?}"
    );
    assert_eq!(not_found.summary(), "no compiler for GPU code was found");
    let message = not_found.to_string();
    for part in [
        "1.96.0 or newer",
        "missing/rustc",
        "rust-src",
        "1.96.0-nightly is too old",
        "broken",
        "src/rustc-1.96.0",
    ] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}

#[test]
fn a_proxy_stands_for_the_compiler_behind_it_and_sources_may_lie_apart() {
    let machine = Machine::new("proxy");
    let real = machine.rustc("toolchain", "1.96.0", TARGET);
    let proxy = machine.path("cargo/bin/rustc");
    script(&proxy, &format!("exec '{}' \"$@\"\n", real.display()));
    machine.file("src/rustc-1.96.0/library/core/src/lib.rs");
    let mut search = machine.search();
    search.active = proxy.into();

    let found = search.run().unwrap();
    assert_eq!(found.rustc, real);
    assert_eq!(found.library, machine.path("src/rustc-1.96.0/library"));
    assert!(found.verbose_version.starts_with("rustc 1.96.0 (fake)"));
}
