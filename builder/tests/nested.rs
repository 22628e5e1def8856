//! Whole builds: an outer cargo, a build script, a nested cargo, and a program that holds the result.

mod fixture;

use std::{fs, path::Path};

use fixture::{Built, Fixture, has_device_compiler};

#[test]
fn kernels_are_embedded_for_the_default_architectures() {
    if !has_device_compiler() {
        return;
    }
    let built = Fixture::new("embedded").run(&[]);
    assert_eq!(built.images, [(80, false, true), (90, false, true)]);
    assert_eq!((built.absent.as_str(), built.broken.as_str()), ("\"\"", "\"\""));
    for arch in ["sm_80", "sm_90"] {
        let ptx = built.read(&format!("kernels.{arch}.ptx"));
        assert!(ptx.contains(&format!(".target {arch}\n")), "{ptx}");
        assert!(ptx.contains(")\n.reqntid 256, 1, 1\n{"), "{ptx}");
        assert!(!ptx.contains("shmem-entry") && !ptx.contains(".extern .func"), "{ptx}");
        // The hostile profile has no say: the call is inlined and nothing checks for overflow.
        assert!(ptx.contains("0f40400000") && !ptx.contains("factor"), "{ptx}");
    }
    let log = built.read("kernels.sm_90.log");
    assert!(log.contains("--locked") && !log.contains("jobserver"), "{log}");
}

#[test]
fn records_of_calls_are_asked_for_and_leave_no_trace_else() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("records");
    fixture.set("SHMEM_ARCH", "sm_90");
    let mut built = |value: &str| {
        fixture.set("SHMEM_TIMELINE_EVENTS", value);
        let built = fixture.run(&[]);
        let asked = built.read("kernels.sm_90.log").contains("--cfg=shmem_timeline");
        (built.read("kernels.sm_90.ptx"), asked)
    };
    let (unset, off, on) = (built(""), built("0"), built("1"));
    assert_eq!(unset, off);
    assert!(!off.1 && on.1);
}

#[test]
fn images_for_network_paths_are_made_on_demand_beside_the_others() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("network");
    let plain = ["80 false 3", "90 false 3"];
    assert_eq!(fixture.run(&[]).kinds, plain);
    let both = ["80 false 3", "90 false 3", "80 true 5", "90 true 5"];
    let on = fixture.set("SHMEM_NETWORK", "1").run(&[]);
    assert_eq!(on.kinds, both);
    let log = |name: &str| {
        on.read(&format!("kernels{name}.sm_90.log"))
            .contains("--cfg=shmem_network")
    };
    assert!(log(".network") && !log(""));
    // As the build script says, unless the variable says otherwise.
    fixture.edit("build.rs", "kernels()", "kernels().network(true)");
    assert_eq!(fixture.set("SHMEM_NETWORK", "").run(&[]).kinds, both);
    assert_eq!(fixture.set("SHMEM_NETWORK", "0").run(&[]).kinds, plain);
}

#[test]
fn the_gpu_side_is_built_again_when_its_sources_change_and_only_then() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("rebuilt");
    fixture.set("SHMEM_ARCH", "sm_90");
    let first = fixture.run(&[]);
    let again = |what: &str, expected: bool, before: &Built| {
        let now = fixture.run(&[]);
        assert_eq!(
            now.compiled != before.compiled,
            expected,
            "after {what}: {}",
            now.stderr
        );
        now
    };
    let same = again("nothing", false, &first);
    fixture.edit("src/main.rs", "fn main() {", "fn main() {\n");
    let same = again("an edit of main.rs", false, &same);
    fixture.edit("src/host.rs", "pub", "// host\npub");
    let same = again("an edit of a module that the GPU doesn't have", false, &same);
    assert_eq!(same.id, first.id);

    fixture.edit("src/lib.rs", "x[i] *=", "x[i] +=");
    let kernel = again("an edit of a kernel", true, &same);
    assert_ne!(kernel.id, first.id);
    let shmem = fs::read_to_string(fixture.path("shmem/src/lib.rs")).unwrap();
    fixture.write("shmem/src/lib.rs", &shmem.replace("3.0", "4.0"));
    let dependency = again("an edit of a dependency", true, &kernel);
    assert_ne!(dependency.id, kernel.id);
    fixture.edit("Cargo.toml", "more = []", "more = []\nothers = []");
    again("an edit of the manifest", true, &dependency);
}

#[test]
fn compile_errors_go_where_the_macro_finds_them() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("failing");
    fixture.set("SHMEM_ARCH", "sm_90");
    fixture.edit(
        "src/lib.rs",
        "x[i] *= shmem::factor();",
        "let unused = 1; x[i] = \"text\";",
    );
    let built = fixture.run(&[]);
    assert!(built.images.is_empty());
    for part in [
        "`failing` failed (sm_90)",
        "error[E0308]: mismatched types",
        "--> failing/src/lib.rs:11:32",
    ] {
        assert!(built.broken.contains(part), "no `{part}` in {}", built.broken);
    }
    for noise in ["could not compile", "warning", "unused variable", "rustc --explain"] {
        assert!(!built.broken.contains(noise), "`{noise}` in {}", built.broken);
    }

    fixture.edit("src/lib.rs", "\"text\"", "f32::from(u8::from(memory(x)))");
    fixture.edit("src/lib.rs", "pub mod gpu {", "pub mod gpu {\nfn memory(x: &[f32]) -> bool { let x: &[u8] = unsafe { core::mem::transmute(x) }; x[..9] == x[9..] }");
    let built = fixture.run(&[]);
    assert!(built.broken.contains("`memcmp`"), "{}", built.broken);

    fixture.edit("src/lib.rs", "f32::from(u8::from(memory(x)))", "1.0");
    let built = fixture.run(&[]);
    assert_eq!(built.images, [(90, false, true)], "{}", built.broken);
}

#[test]
fn a_package_without_a_library_is_told_so() {
    if !has_device_compiler() {
        return;
    }
    let fixture = Fixture::new("bare");
    fs::remove_file(fixture.path("bare/src/lib.rs")).unwrap();
    fixture.write("bare/src/main.rs", "fn main() { let images: shmem::Images = include!(env!(\"SHMEM_IMAGES\")); println!(\"id 0\\nfile {}\\nabsent {:?}\\nbroken {:?}\", env!(\"SHMEM_IMAGES\"), images.absent, images.broken); }");
    let built = fixture.run(&[]);
    assert!(built.broken.contains("kernels live in src/lib.rs"), "{}", built.broken);
}

#[test]
fn without_a_compiler_the_host_side_is_built_alone() {
    let mut fixture = Fixture::new("absent");
    fixture.set("SHMEM_DEVICE_RUSTC", "none");
    let built = fixture.run(&[]);
    assert!(built.images.is_empty() && built.broken == "\"\"", "{built:?}");
    assert!(built.absent.contains("SHMEM_DEVICE_RUSTC=none"), "{}", built.absent);
    assert_eq!(
        built
            .stderr
            .matches("warning: absent@0.1.0: no compiler for GPU code was found")
            .count(),
        1,
        "{}",
        built.stderr
    );

    let built = fixture.set("SHMEM_DEVICE_RUSTC", "/nowhere/rustc").run(&[]);
    let warnings: Vec<_> = built
        .stderr
        .lines()
        .filter(|line| line.starts_with("warning: absent@"))
        .collect();
    assert!(
        warnings.len() == 1
            && warnings[0].contains("/nowhere/rustc: does not work: No such file")
            && warnings[0].ends_with("run: unset SHMEM_DEVICE_RUSTC"),
        "{}",
        built.stderr
    );

    fixture.set("SHMEM_DEVICE_RUSTC", "none");
    let built = fixture.set("SHMEM_PTX", "require").run(&[]);
    assert!(
        built.broken.contains("SHMEM_DEVICE_RUSTC=none") && built.absent == "\"\"",
        "{built:?}"
    );

    let built = fixture.set("SHMEM_DEVICE_RUSTC", "/nowhere/rustc").run(&[]);
    assert!(
        built.broken.contains("/nowhere/rustc: does not work") && built.broken.contains("run:"),
        "{built:?}"
    );

    let built = fixture.set("SHMEM_PTX", "off").run(&[]);
    assert!(
        built.absent.contains("SHMEM_PTX=off") && !built.stderr.contains("warning"),
        "{built:?}"
    );

    let built = fixture.set("SHMEM_PTX", "maybe").run(&[]);
    assert!(built.broken.contains("auto, require or off"), "{built:?}");
}

#[test]
fn architectures_come_from_the_environment() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("archs");
    fixture.edit("build.rs", "kernels()", "kernels().arch(shmem_build::Arch::Sm89)");
    assert_eq!(fixture.run(&[]).images, [(89, false, true)]);
    let built = fixture.set("SHMEM_ARCH", "sm_90a,sm_80").run(&[]);
    assert_eq!(built.images, [(80, false, true), (90, true, true)]);
    let built = fixture.set("SHMEM_ARCH", "sm_80,sm_42").run(&[]);
    assert!(built.images.is_empty());
    assert!(
        built.broken.contains("`sm_42`") && built.broken.contains("sm_90a, sm_100"),
        "{}",
        built.broken
    );
}

#[test]
fn features_of_the_package_reach_its_kernels() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("featured");
    fixture.set("SHMEM_ARCH", "sm_90");
    let without = fixture.run(&[]);
    assert!(!without.read("kernels.sm_90.ptx").contains(".entry more("));
    let with = fixture.run(&["--features", "more"]);
    assert!(with.read("kernels.sm_90.ptx").contains(".entry more("));
    assert_eq!(fixture.run(&[]).id, without.id);
}

#[test]
fn folders_may_have_spaces_and_commas_and_builds_may_name_their_target() {
    if !has_device_compiler() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a folder, a comma");
    let mut fixture = Fixture::at("spaced", folder.join("the workspace"), folder.join("the target"));
    fixture.set("SHMEM_ARCH", "sm_90");
    let first = fixture.run(&[]);
    assert_eq!(first.images, [(90, false, true)], "{}", first.broken);
    fixture.edit("src/lib.rs", "x[i] *=", "x[i] +=");
    assert_ne!(fixture.run(&[]).id, first.id);

    let host = shmem_build::toolchain::find().unwrap().verbose_version;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let cross = fixture.run(&["--target", host]);
    assert_eq!(cross.images, [(90, false, true)], "{}", cross.broken);
    assert!(!folder.join("the target").join(host).join("shmem-ptx").exists());
    assert!(folder.join("the target/shmem-ptx/nvptx64-nvidia-cuda").exists());
}

#[test]
fn a_relative_cache_is_refused() {
    if !has_device_compiler() {
        return;
    }
    let mut fixture = Fixture::new("relative");
    let built = fixture.set("SHMEM_CACHE", "the-cache").run(&[]);
    assert!(
        built.broken.contains("SHMEM_CACHE is set to `the-cache`") && built.broken.contains("absolute path"),
        "{}",
        built.broken
    );
    assert!(!fixture.path("relative/the-cache").exists());
}

#[test]
fn what_knows_another_core_is_compiled_again() {
    if !has_device_compiler() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("another-core");
    drop(fs::remove_dir_all(&folder));
    // The core that everybody has, copied to be changed.
    let toolchain = shmem_build::toolchain::find().unwrap();
    let usual = shmem_build::sysroot::ensure(&toolchain).unwrap();
    let sysroot = folder.join("cache/sysroot").join(usual.file_name().unwrap());
    copy_all(&usual, &sysroot);

    let mut fixture = Fixture::at("another", folder.join("workspace"), folder.join("target"));
    fixture.set("SHMEM_ARCH", "sm_90");
    fixture.set("SHMEM_CACHE", folder.join("cache").to_str().unwrap());
    let dependency = || {
        let files = fs::read_dir(folder.join("target/shmem-ptx/nvptx64-nvidia-cuda/shmem-ptx/deps")).unwrap();
        let times = files
            .map(|file| file.unwrap())
            .filter(|file| file.file_name().to_string_lossy().starts_with("libshmem-"))
            .map(|file| file.metadata().unwrap().modified().unwrap());
        times.max().unwrap()
    };
    let built = fixture.run(&[]);
    assert_eq!(built.images, [(90, false, true)], "{}", built.broken);
    let first = dependency();

    fixture.edit("src/lib.rs", "x[i] *=", "x[i] +=");
    assert_eq!(fixture.run(&[]).images, [(90, false, true)]);
    assert_eq!(dependency(), first, "the same core, and yet compiled again");

    fs::write(sysroot.join("content"), "another").unwrap();
    fixture.edit("src/lib.rs", "x[i] +=", "x[i] -=");
    let built = fixture.run(&[]);
    assert_eq!(built.images, [(90, false, true)], "{}", built.broken);
    assert_ne!(dependency(), first);
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn two_cargos_at_once_get_in_nobodys_way() {
    if !has_device_compiler() {
        return;
    }
    // Debug and release builds don't wait for each other, and meet in the folder of the GPU build.
    let fixture = Fixture::new("twice");
    let builds = [fixture.start(&["run"]), fixture.start(&["run", "--release"])];
    let [debug, release] = builds.map(|build| Built::new(&build.wait_with_output().unwrap()));
    assert_eq!(debug.images, [(80, false, true), (90, false, true)], "{}", debug.broken);
    assert_eq!(
        (debug.images, debug.id),
        (release.images, release.id),
        "{}",
        release.broken
    );
    assert_ne!(debug.out, release.out);
}

#[test]
fn a_resolver_that_mixes_features_is_refused() {
    if !has_device_compiler() {
        return;
    }
    let fixture = Fixture::new("resolver");
    let manifest = fs::read_to_string(fixture.path("Cargo.toml")).unwrap();
    fixture.write("Cargo.toml", &manifest.replace("\"3\"", "\"1\""));
    let built = fixture.run(&[]);
    assert!(built.broken.contains("set `resolver = \\\"3\\\"`"), "{}", built.broken);
}

#[test]
fn a_host_package_compiles_a_device_package() {
    if !has_device_compiler() {
        return;
    }
    let fixture = Fixture::new("split");
    fixture.write("device/Cargo.toml", "[package]\nname = \"device\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\nname = \"the_kernels\"\n[dependencies]\nshmem = { path = \"../shmem\" }\n");
    fixture.write("device/src/lib.rs", "#[cfg(target_arch = \"nvptx64\")]\n#[unsafe(no_mangle)]\npub extern \"ptx-kernel\" fn k() { let _ = shmem::factor(); }");
    fixture.write("split/build.rs", "use shmem_build::{Arch, CudaBuilder};\nfn main() -> Result<(), shmem_build::Error> {\n    let ptx = CudaBuilder::new(\"../device\").arch(Arch::Sm90).arch(Arch::Sm80).copy_to(\"out/k.ptx\").build()?;\n    println!(\"cargo::rustc-env=KERNELS={}\", ptx.display());\n    Ok(())\n}");
    fixture.write(
        "split/src/lib.rs",
        "pub const PTX: &str = include_str!(env!(\"KERNELS\"));",
    );
    fixture.write("split/src/main.rs", "fn main() { println!(\"{}\", split::PTX); }");
    let output = fixture.output(&["run"]);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stderr}");
    assert!(
        stdout.contains(".target sm_80") && stdout.contains(".entry k()"),
        "{stdout}"
    );
    let other = fs::read_to_string(fixture.path("split/out/k.sm_90.ptx")).unwrap();
    assert!(
        other.contains(".target sm_90") && other.contains(".entry k()"),
        "{other}"
    );

    fixture.write("device/src/lib.rs", "pub fn k() -> u32 { \"text\" }");
    let output = fixture.output(&["run"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        stderr.contains("Error: the GPU build of `device` failed (sm_80):"),
        "{stderr}"
    );
    assert!(stderr.contains("--> device/src/lib.rs:1:21"), "{stderr}");
}
