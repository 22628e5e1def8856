//! Builds `core` and `compiler_builtins` for the GPU, once per user and compiler.
//!
//! Not with cargo's `build-std`: that wants a dozen crates which `cargo fetch` misses, so offline builds fail, and it
//! builds anew in every target folder. Two calls of rustc do.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::{
    TARGET,
    error::Error,
    files::{self, Hash, Scratch},
    scrub, settings,
    toolchain::Toolchain,
};

/// How the crates are compiled.
///
/// - `linker-plugin-lto`: bitcode only, so that nothing of `core` becomes PTX unless a kernel uses it.
/// - no `JumpThreading`: that pass duplicates barriers into the arms of a branch.
/// - `panic=abort`, not `immediate-abort`: a failed bounds check must reach the panic handler, which records the fault.
///   Panic locations stay in; a handler that doesn't read them pays nothing (18 registers either way for an indexing
///   kernel, measured).
const FLAGS: [&str; 12] = [
    "--crate-type=lib",
    "--edition=2024",
    "--target=nvptx64-nvidia-cuda",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cpanic=abort",
    "-Clinker-plugin-lto",
    "-Cdebug-assertions=off",
    "-Coverflow-checks=off",
    "-Zforce-unstable-if-unmarked",
    "-Zmir-enable-passes=-JumpThreading",
    "--cap-lints=allow",
];

/// What `compiler_builtins` is compiled with on top.
const BUILTINS_FLAGS: [&str; 4] = [
    "--cfg=feature=\"compiler-builtins\"",
    "--cfg=feature=\"unstable-intrinsics\"",
    "--cfg=intrinsics_enabled",
    "--cfg=arch_enabled",
];

/// The file in a sysroot that names what its crates hold, so that what was compiled against other ones is told apart.
const CONTENT: &str = "content";

/// The folder to give to `rustc --sysroot` for GPU code; builds it where it isn't there yet (22 s, 42 MB).
///
/// It lies in [`cache`], under a name made from `rustc -vV` and from how it is built. Builds at the same time wait for each other, and one that is interrupted
/// leaves nothing half done behind. Works inside a build script and outside.
///
/// # Errors
/// [`Error::Sysroot`] where a crate doesn't compile, [`Error::NoCache`], [`Error::Setting`] and [`Error::Io`] where
/// there is no place for it.
pub fn ensure(toolchain: &Toolchain) -> Result<PathBuf, Error> {
    ensure_in(&cache()?.join("sysroot"), toolchain)
}

fn ensure_in(folder: &Path, toolchain: &Toolchain) -> Result<PathBuf, Error> {
    let name = name(toolchain);
    let sysroot = folder.join(&name);
    let complete = || sysroot.join(CONTENT).is_file();
    if complete() {
        return Ok(sysroot);
    }
    files::create_dir(folder)?;
    let _lock = files::lock(&folder.join(format!("{name}.lock")))?;
    // Somebody else may have built it while we waited.
    if !complete() {
        let scratch = Scratch::new(folder.join(format!("{name}.part")))?;
        compile(toolchain, scratch.path())?;
        // There only where somebody deleted files in it.
        drop(fs::remove_dir_all(&sysroot));
        fs::rename(scratch.path(), &sysroot).map_err(Error::io("create", &sysroot))?;
    }
    Ok(sysroot)
}

fn name(toolchain: &Toolchain) -> String {
    // The folder of the source goes into the crates, and so does the one that they are compiled in.
    let library = toolchain.library.to_string_lossy();
    let mut recipe = Hash::new().add(&toolchain.verbose_version).add(&library);
    for flag in FLAGS.iter().chain(&BUILTINS_FLAGS) {
        recipe = recipe.add(flag);
    }
    format!("{}-{:016x}", toolchain.version, recipe.get())
}

fn compile(toolchain: &Toolchain, sysroot: &Path) -> Result<(), Error> {
    let library = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    files::create_dir(&library)?;
    rustc(toolchain, sysroot, &library, "core", "core/src/lib.rs", &[])?;
    let core = format!("--extern=core={}", library.join("libcore.rlib").display());
    let flags: Vec<&str> = BUILTINS_FLAGS.into_iter().chain([core.as_str()]).collect();
    let source = "compiler-builtins/compiler-builtins/src/lib.rs";
    rustc(toolchain, sysroot, &library, "compiler_builtins", source, &flags)?;
    let mut content = Hash::new();
    for krate in ["libcore.rlib", "libcompiler_builtins.rlib"] {
        let path = library.join(krate);
        content = content.add_bytes(&fs::read(&path).map_err(Error::io("read", &path))?);
    }
    let path = sysroot.join(CONTENT);
    fs::write(&path, format!("{:016x}", content.get())).map_err(Error::io("write", &path))
}

/// A word for what the crates in a folder from [`ensure`] hold. The folder's name says how they were made, which is
/// less: a compiler need not make the same bytes twice, and crates refuse a `core` that isn't the one they know.
pub(crate) fn content(sysroot: &Path) -> Result<String, Error> {
    let path = sysroot.join(CONTENT);
    fs::read_to_string(&path).map_err(Error::io("read", &path))
}

fn rustc(
    toolchain: &Toolchain,
    sysroot: &Path,
    out: &Path,
    krate: &'static str,
    source: &str,
    flags: &[&str],
) -> Result<(), Error> {
    let mut command = scrub::command(&toolchain.rustc);
    command
        // The same wherever the build is started: it leaves its mark in the crate, and so in its hash.
        .current_dir(&toolchain.library)
        .env("RUSTC_BOOTSTRAP", "1")
        .args(FLAGS)
        .args(flags)
        .args(["--crate-name", krate]);
    command
        .arg("--sysroot")
        .arg(sysroot)
        .arg("--out-dir")
        .arg(out)
        .arg(toolchain.library.join(source));
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run", &toolchain.rustc))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    let output = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(Error::Sysroot {
        krate,
        rustc: toolchain.rustc.clone(),
        output,
    })
}

/// The folder for what is made once per user: `SHMEM_CACHE`, or else `$XDG_CACHE_HOME/shmem`, or else
/// `~/.cache/shmem`. It may not exist yet.
///
/// # Errors
/// [`Error::Setting`] where `SHMEM_CACHE` is a relative path, which would be another folder for each package, and
/// [`Error::NoCache`] where no home folder is known.
pub fn cache() -> Result<PathBuf, Error> {
    if let Some(folder) = settings::var(settings::CACHE) {
        return chosen(folder.into());
    }
    // By its specification, a relative XDG_CACHE_HOME is to be ignored.
    let xdg = settings::var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder = xdg.or_else(|| Some(env::home_dir()?.join(".cache")));
    Ok(folder.ok_or(Error::NoCache)?.join("shmem"))
}

/// `SHMEM_CACHE`, if it can be used.
fn chosen(folder: PathBuf) -> Result<PathBuf, Error> {
    if folder.is_absolute() {
        return Ok(folder);
    }
    Err(Error::Setting {
        variable: settings::CACHE,
        value: folder.display().to_string(),
        expected: "use an absolute path: each build script has a current folder of its own".into(),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{testing, toolchain::Version};

    /// Writes the crate, which holds the folder that it was compiled in.
    const COMPILE: &str = "\
while [ $# -gt 0 ]; do
    case \"$1\" in --out-dir) out=$2 ;; --crate-name) name=$2 ;; esac
    shift
done
pwd -P > \"$out/lib$name.rlib\"";

    /// A compiler that notes each call, takes its time, and then runs `rest`.
    fn toolchain(folder: &Path, rest: &str) -> Toolchain {
        let rustc = folder.join("rustc");
        let calls = folder.join("calls");
        testing::script(
            &rustc,
            &format!("echo call >> '{}'\nsleep 0.05\n{rest}", calls.display()),
        );
        Toolchain {
            rustc,
            version: Version {
                major: 1,
                minor: 96,
                patch: 0,
                pre: None,
            },
            verbose_version: "rustc 1.96.0 (fake)".into(),
            library: folder.into(),
            sysroot: folder.into(),
        }
    }

    fn calls(folder: &Path) -> usize {
        fs::read_to_string(folder.join("calls")).unwrap().lines().count()
    }

    #[test]
    fn it_is_built_once_also_by_two_at_once() {
        let _turn = testing::turn();
        let scratch = Scratch::new(testing::dir("sysroot")).unwrap();
        let folder = scratch.path();
        let toolchain = toolchain(folder, COMPILE);
        let cache = folder.join("the cache");
        let sysroots = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| ensure_in(&cache, &toolchain).unwrap()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(sysroots[0], sysroots[1]);
        assert_eq!(calls(folder), 2, "core and compiler_builtins");
        ensure_in(&cache, &toolchain).unwrap();
        assert_eq!(calls(folder), 2);
        let other = Toolchain {
            verbose_version: "rustc 1.96.0 (other)".into(),
            ..toolchain
        };
        assert_ne!(ensure_in(&cache, &other).unwrap(), sysroots[0]);
    }

    #[test]
    fn its_content_has_a_name_and_does_not_depend_on_where_it_was_built() {
        let _turn = testing::turn();
        let scratch = Scratch::new(testing::dir("sysroot-content")).unwrap();
        let folder = fs::canonicalize(scratch.path()).unwrap();
        let toolchain = toolchain(&folder, COMPILE);
        let sysroot = ensure_in(&folder.join("cache"), &toolchain).unwrap();
        let core = sysroot.join("lib/rustlib").join(TARGET).join("lib/libcore.rlib");
        assert_eq!(
            fs::read_to_string(core).unwrap().trim(),
            toolchain.library.to_str().unwrap()
        );
        let first = content(&sysroot).unwrap();
        assert_eq!(first.len(), 16, "{first}");

        // Built again where a part of it is gone; with other bytes, it has another name.
        fs::remove_file(sysroot.join(CONTENT)).unwrap();
        testing::script(
            &toolchain.rustc,
            &format!("{COMPILE}\necho more >> \"$out/lib$name.rlib\""),
        );
        assert_eq!(ensure_in(&folder.join("cache"), &toolchain).unwrap(), sysroot);
        assert_ne!(content(&sysroot).unwrap(), first);
    }

    #[test]
    fn a_relative_cache_is_refused() {
        assert_eq!(chosen("/a/b".into()).unwrap(), Path::new("/a/b"));
        for relative in [".cache", "./c", "../c"] {
            let message = chosen(relative.into()).unwrap_err().to_string();
            assert!(
                message.contains(&format!("SHMEM_CACHE is set to `{relative}`")) && message.contains("absolute path"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_failure_is_reported_and_leaves_nothing_behind() {
        let _turn = testing::turn();
        let scratch = Scratch::new(testing::dir("sysroot-fails")).unwrap();
        let toolchain = toolchain(scratch.path(), "echo 'error: no such flag' >&2; exit 1");
        let cache = scratch.path().join("cache");
        let message = ensure_in(&cache, &toolchain).unwrap_err().to_string();
        assert!(
            message.contains("`core`") && message.contains("error: no such flag"),
            "{message}"
        );
        let left: Vec<_> = fs::read_dir(&cache)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, [format!("{}.lock", name(&toolchain)).as_str()]);
    }
}
