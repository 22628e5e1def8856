//! Which PTX suits a device, and whether this program can talk to it: decided on the text, before the driver sees it.

use shmem::Image;
use shmem::state::{LAYOUT, LAYOUT_SYMBOL};
use std::collections::HashMap;

/// A kernel's PTX is missing, or does not fit the device or this program. Example at [`Pe::load_ptx`](crate::Pe::load_ptx).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The package was built without PTX.
    #[error("kernel {kernel} has no PTX, so it runs on the simulator only (SHMEM_BACKEND=sim): {reason}")]
    NoImages {
        /// The kernel.
        kernel: String,
        /// Why there is none.
        reason: String,
    },
    /// No image runs on this device.
    #[error(
        "kernel {kernel} was built for {built}, the device is sm_{device}: build it for this device too \
         (SHMEM_ARCH=sm_{device})"
    )]
    Architecture {
        /// The kernel.
        kernel: String,
        /// Architectures of the images, as in `sm_90a`.
        built: String,
        /// The device's: 90 for sm_90.
        device: u32,
    },
    /// The package was built without images for this World's path.
    #[error(
        "kernel {kernel} of package {package} was built for loads and stores alone, and this World has PEs that only a network          adapter reaches: build it with SHMEM_NETWORK=1"
    )]
    NoNetwork {
        /// The kernel.
        kernel: String,
        /// Its package's library.
        package: String,
    },
    /// The kernel is not among those compiled.
    #[error(
        "kernel {kernel} (symbol {symbol}) is not in its package's PTX: kernels for GPUs live in a package's lib, those in \
         tests, doctests and under cfg(test) run on the simulator only"
    )]
    NotInImage {
        /// The kernel.
        kernel: String,
        /// Its entry.
        symbol: String,
    },
    /// Hand-made PTX has no such kernel, or several.
    #[error("the PTX does not have exactly one kernel {name}: it has {entries}")]
    NoSuchEntry {
        /// The name asked for.
        name: String,
        /// The symbols there are.
        entries: String,
    },
    /// The text is not PTX that this library can use.
    #[error("the PTX lacks {part}: it is damaged, or was not made by shmem-build")]
    Damaged {
        /// What was looked for.
        part: &'static str,
    },
    /// The PTX was built against another version of the device state.
    #[error(
        "stale PTX: it was built for device-state layout {found:#018x}, this program writes {expected:#018x}: rebuild the \
         kernels with the version of shmem-intrinsics that the host program uses"
    )]
    Stale {
        /// The PTX's layout.
        found: u64,
        /// This program's.
        expected: u64,
    },
    /// The driver's compiler refused the text.
    #[error("PE {pe}: the driver can't compile the PTX ({cause}):\n{log}")]
    Compile {
        /// The PE that loads it.
        pe: u32,
        /// The refusal.
        cause: String,
        /// The compiler's words.
        log: String,
    },
    /// Hand-made PTX was given to the simulator.
    #[error("PTX text runs on GPUs only, this World runs on {backend}: set SHMEM_BACKEND=cuda")]
    NotOnThisBackend {
        /// The backend.
        backend: &'static str,
    },
}

/// The best image for the device: the highest architecture that it runs. `network`: of those that also drive network adapters,
/// and else of those that only load and store.
pub(crate) fn choose(
    (kernel, symbol): (&str, &str),
    images: &'static [Image],
    network: bool,
    device: u32,
) -> Result<&'static Image, ImageError> {
    if network && !images.iter().any(|image| image.network) {
        return Err(no_network(kernel, symbol));
    }
    let images = images.iter().filter(|image| image.network == network);
    let runs = |image: &&Image| {
        if image.exact {
            image.arch == device
        } else {
            image.arch <= device
        }
    };
    images
        .clone()
        .filter(runs)
        .max_by_key(|image| (image.arch, image.exact))
        .ok_or_else(|| {
            let name = |image: &Image| format!("sm_{}{}", image.arch, if image.exact { "a" } else { "" });
            let built = images.map(name).collect::<Vec<_>>().join(", ");
            ImageError::Architecture {
                kernel: kernel.to_owned(),
                built,
                device,
            }
        })
}

fn no_network(kernel: &str, symbol: &str) -> ImageError {
    ImageError::NoNetwork {
        kernel: kernel.to_owned(),
        package: symbol.split('$').next().unwrap_or_default().to_owned(),
    }
}

/// What the assembler made of the image, if that runs on the device: on its own architecture and on later ones of the same
/// number.
pub(crate) fn assembled(image: &Image, device: u32) -> Option<&'static [u8]> {
    let fits = image.arch == device || (!image.exact && image.arch / 10 == device / 10 && image.arch <= device);
    (fits && !image.cubin.is_empty()).then_some(image.cubin)
}

/// What a text has that drives network adapters.
const NETWORK: &str = ".visible .global .align 4 .u32 SHMEM_NETWORK";

/// What a PTX text says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// 90 for sm_90.
    arch: u32,
    /// Runs on this architecture only.
    exact: bool,
    /// Layout of the device state that it was built for.
    layout: u64,
    /// Drives network adapters too.
    network: bool,
}

impl Header {
    pub(crate) fn read(ptx: &str) -> Result<Self, ImageError> {
        let missing = |part| ImageError::Damaged { part };
        let target = code_lines(ptx)
            .find_map(|line| line.strip_prefix(".target"))
            .and_then(parse_target);
        let (arch, exact) = target.ok_or(missing("a line `.target sm_N`"))?;
        let layout = code_lines(ptx)
            .find_map(parse_layout)
            .ok_or(missing("a line `.visible .global .align 8 .u64 SHMEM_LAYOUT = N;`"))?;
        let network = code_lines(ptx).any(|line| line.starts_with(NETWORK));
        Ok(Self {
            arch,
            exact,
            layout,
            network,
        })
    }

    /// Blocks that a cluster may have: images for architectures without clusters take each block for one.
    pub(crate) fn largest_cluster(&self) -> u32 {
        if self.arch >= 90 { 8 } else { 1 }
    }

    /// Whether programmatic kernels wait for the one ahead of them.
    pub(crate) fn programmatic(&self) -> bool {
        self.arch >= 90
    }

    /// Refuses PTX that has no way to PEs that only a network adapter reaches.
    pub(crate) fn check_network(&self, kernel: &str, package: &str) -> Result<(), ImageError> {
        if self.network {
            return Ok(());
        }
        Err(no_network(kernel, package))
    }

    /// Refuses PTX that the device can't run or that would misread what this program writes.
    pub(crate) fn check(&self, kernel: &str, device: u32) -> Result<(), ImageError> {
        if self.layout != LAYOUT {
            return Err(ImageError::Stale {
                found: self.layout,
                expected: LAYOUT,
            });
        }
        let Self { arch, exact, .. } = *self;
        if arch > device || (exact && arch != device) {
            let built = format!("sm_{arch}{}", if exact { "a" } else { "" });
            return Err(ImageError::Architecture {
                kernel: kernel.to_owned(),
                built,
                device,
            });
        }
        Ok(())
    }
}

/// Names of the kernels in the text, in its order.
pub(crate) fn entries(ptx: &str) -> impl Iterator<Item = &str> {
    placed_entries(ptx).map(|(_, name)| name)
}

/// Likewise with their places. The text is searched and not taken line by line: it may be megabytes, and a World that starts waits for it.
fn placed_entries(ptx: &str) -> impl Iterator<Item = (usize, &str)> {
    ptx.match_indices(".entry ").filter_map(move |(at, found)| {
        let start = ptx[..at].rfind('\n').map_or(0, |end| end + 1);
        let rest = ptx[at + found.len()..].lines().next().unwrap_or_default();
        let name = rest.trim_start().split(|c| !is_symbol(c)).next()?;
        (!ptx[start..at].contains("//")).then_some((at, name))
    })
}

/// The lanes of the largest SubWarp that an entry uses, 1 where it uses none. The device side marks each use by a comment. An entry
/// has the marks of the functions that it names, and of those that they name.
pub(crate) fn tiles(ptx: &str) -> HashMap<String, u32> {
    // Sections begin with the headers of entries and functions, in the order of the text.
    let mut sections: Vec<_> = placed_entries(ptx).map(|(at, name)| (at, name, true)).collect();
    sections.extend(placed_functions(ptx).map(|(at, name)| (at, name, false)));
    sections.sort_unstable();
    let section = |at: usize| sections.partition_point(|(start, ..)| *start < at).checked_sub(1);
    let mut lanes = vec![1; sections.len()];
    let mut marked = Vec::new();
    for (at, mark) in ptx.match_indices("// shmem-tile ") {
        let number = ptx[at + mark.len()..].lines().next().unwrap_or_default();
        if let (Some(section), Ok(number)) = (section(at), number.trim().parse::<u32>()) {
            lanes[section] = number.max(lanes[section]);
            marked.push(section);
        }
    }
    while let Some(callee) = marked.pop() {
        let (_, name, entry) = sections[callee];
        if entry {
            continue;
        }
        for (at, _) in ptx.match_indices(name) {
            if let Some(caller) = section(at)
                && lanes[caller] < lanes[callee]
                && !ptx[at + name.len()..].starts_with(is_symbol)
                && !ptx[..at].ends_with(is_symbol)
            {
                lanes[caller] = lanes[callee];
                marked.push(caller);
            }
        }
    }
    let entries = sections.iter().zip(lanes).filter(|((.., entry), _)| *entry);
    entries
        .map(|((_, name, _), lanes)| ((*name).to_owned(), lanes))
        .collect()
}

/// Functions that are declared or defined in the text, with the places of their headers.
fn placed_functions(ptx: &str) -> impl Iterator<Item = (usize, &str)> {
    ptx.match_indices(".func ").filter_map(move |(at, found)| {
        let rest = ptx[at + found.len()..].trim_start();
        // What it returns stands before its name.
        let rest = rest
            .strip_prefix('(')
            .map_or(Some(rest), |rest| Some(rest.split_once(')')?.1))?;
        let rest = rest.trim_start();
        let name = &rest[..rest.find(|c| !is_symbol(c)).unwrap_or(rest.len())];
        (!name.is_empty()).then_some((at, name))
    })
}

/// Whether a name may have the character.
fn is_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// The entry with this symbol, or the only one of a kernel with this name: a symbol is `crate$name$hash`.
pub(crate) fn find_entry<'a>(entries: &'a [String], name: &str) -> Result<&'a str, ImageError> {
    let exact = entries.iter().find(|entry| *entry == name);
    let mut named = entries.iter().filter(|entry| entry.split('$').nth(1) == Some(name));
    let only = || named.next().filter(|_| named.next().is_none());
    exact
        .or_else(only)
        .map(String::as_str)
        .ok_or_else(|| ImageError::NoSuchEntry {
            name: name.to_owned(),
            entries: entries.join(", "),
        })
}

/// The lines without their comments.
fn code_lines(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code).trim())
}

/// `sm_90a, debug` after `.target`.
fn parse_target(rest: &str) -> Option<(u32, bool)> {
    let name = rest.trim().split([',', ' ', '\t']).next()?.strip_prefix("sm_")?;
    let digits = name.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    Some((digits.parse().ok()?, name.ends_with('a')))
}

/// `.. SHMEM_LAYOUT = 123;`
fn parse_layout(line: &str) -> Option<u64> {
    let (name, value) = line.split_once('=')?;
    let defines_it = name.trim_end().ends_with(LAYOUT_SYMBOL);
    defines_it.then(|| value.trim().trim_end_matches(';').trim_end().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assembled_runs_on_devices_of_its_kind() {
        let with = |arch, exact| Image {
            cubin: &[1],
            ..image(arch, exact)
        };
        let fits = |image, device| assembled(&image, device).is_some();
        assert!(fits(with(80, false), 80) && fits(with(80, false), 89) && fits(with(90, true), 90));
        assert!(!fits(with(80, false), 90) && !fits(with(89, false), 80) && !fits(with(100, true), 103));
        assert!(!fits(image(90, false), 90));
    }

    const fn image(arch: u32, exact: bool) -> Image {
        Image {
            arch,
            exact,
            network: false,
            ptx: "",
            cubin: &[],
        }
    }

    fn text(target: &str, layout: &str) -> String {
        format!(
            "//\n// Generated by LLVM NVPTX Back-End\n//\n.version 7.8\n.target {target}\n.address_size 64\n\
             \t// .globl\tshmem$a\n.visible .const .align 8 .b8 SHMEM_STATE[8248];\n\
             .visible .global .align 8 .u64 SHMEM_LAYOUT = {layout};\n\
             .visible .entry shmem$a(\n\t.param .u64 p)\n{{\n\tld.global.u64 %rd1, [SHMEM_LAYOUT];\n}}\n\
             .visible .entry shmem$b_2()\n.reqntid 512, 1, 1\n{{\n}}\n"
        )
    }

    #[test]
    fn the_highest_that_runs_is_chosen() {
        static LIST: [Image; 4] = [image(80, false), image(90, false), image(90, true), image(100, false)];
        let arch = |device| choose(("k", "p$k$0"), &LIST, false, device).map(|i| (i.arch, i.exact));
        assert_eq!(arch(80), Ok((80, false)));
        assert_eq!(arch(89), Ok((80, false)));
        assert_eq!(arch(90), Ok((90, true)));
        assert_eq!(arch(103), Ok((100, false)));
        let error = arch(75).unwrap_err().to_string();
        assert!(
            error.contains("built for sm_80, sm_90, sm_90a, sm_100, the device is sm_75"),
            "{error}"
        );
    }

    #[test]
    fn marks_of_tiles_are_read_by_entry() {
        let ptx = ".visible .entry a$k(\n)\n{\n\tmov.u32 %r1, %laneid; // shmem-tile 8\n\tmov.u32 %r1, %laneid; // shmem-tile 32\n}\n\
                   .visible .entry a$l()\n{\n\tret;\n}\n";
        assert_eq!((tiles(ptx)["a$k"], tiles(ptx)["a$l"]), (32, 1));
        // A function's marks are those of the entries that call it, also by way of another one.
        let with_functions = format!(
            ".func f\n()\n;\n.func  (.param .b32 r) ff()\n{{\n\t// shmem-tile 16\n}}\n{}.func g()\n{{\n\tcall.uni f, ();\n}}\n\
             .func f\n()\n{{\n\t// shmem-tile 4\n}}\n",
            ptx.replace("ret;", "call.uni\n\tg, ();\n\tret;")
        );
        assert_eq!((tiles(&with_functions)["a$k"], tiles(&with_functions)["a$l"]), (32, 4));
    }

    #[test]
    fn an_exact_image_runs_nowhere_else() {
        static LIST: [Image; 1] = [image(90, true)];
        assert!(choose(("k", "p$k$0"), &LIST, false, 100).is_err());
    }

    #[test]
    fn the_path_decides_which_of_two_images_is_loaded() {
        const fn network(arch: u32) -> Image {
            Image {
                network: true,
                ..image(arch, false)
            }
        }
        static PLAIN: [Image; 2] = [image(80, false), image(90, false)];
        static BOTH: [Image; 4] = [image(80, false), image(90, false), network(80), network(90)];
        let of = |images, path, device| choose(("k", "pack$k$0"), images, path, device).map(|i| (i.arch, i.network));
        assert_eq!(of(&BOTH, true, 90), Ok((90, true)));
        assert_eq!(of(&BOTH, false, 90), Ok((90, false)));
        assert_eq!(of(&BOTH, true, 86), Ok((80, true)));
        // Those of the other kind are not told of.
        let error = of(&BOTH, true, 75).unwrap_err().to_string();
        assert!(error.contains("built for sm_80, sm_90, the device"), "{error}");
        let error = of(&PLAIN, true, 90).unwrap_err();
        assert_eq!(
            error,
            ImageError::NoNetwork {
                kernel: "k".into(),
                package: "pack".into()
            }
        );
        assert!(error.to_string().contains("SHMEM_NETWORK=1"), "{error}");
    }

    #[test]
    fn a_text_says_whether_it_drives_adapters() {
        let plain = text("sm_90", &LAYOUT.to_string());
        let network = format!("{plain}\n{NETWORK} = 1;\n");
        let check = |ptx: &str| Header::read(ptx).unwrap().check_network("k", "p");
        assert!(matches!(check(&plain), Err(ImageError::NoNetwork { .. })));
        assert_eq!(check(&network), Ok(()));
        assert!(check(&format!("{plain}// {NETWORK} = 1;\n")).is_err());
    }

    #[test]
    fn the_header_is_read() {
        let header = Header::read(&text("sm_90", "17")).unwrap();
        assert_eq!(
            header,
            Header {
                arch: 90,
                exact: false,
                layout: 17,
                network: false,
            }
        );
        assert!(
            Header::read(&text("sm_90a, debug", "18446744073709551615"))
                .unwrap()
                .exact
        );
    }

    #[test]
    fn ptx_for_a_newer_gpu_is_refused_with_both_values() {
        let newer = Header::read(&text("sm_120", &LAYOUT.to_string())).unwrap();
        let error = newer.check("ring", 90).unwrap_err();
        assert_eq!(
            error,
            ImageError::Architecture {
                kernel: "ring".into(),
                built: "sm_120".into(),
                device: 90
            }
        );
        assert_eq!(newer.check("ring", 120), Ok(()));
    }

    #[test]
    fn stale_ptx_is_refused_with_both_values() {
        let stale = Header::read(&text("sm_80", "12345")).unwrap();
        assert_eq!(
            stale.check("k", 90),
            Err(ImageError::Stale {
                found: 12345,
                expected: LAYOUT
            })
        );
    }

    #[test]
    fn damaged_text_is_refused() {
        for ptx in [
            "",
            "hello",
            ".target compute_90",
            ".target sm_90\n",
            ".target sm_90\nSHMEM_LAYOUT = many;",
        ] {
            assert!(matches!(Header::read(ptx), Err(ImageError::Damaged { .. })), "{ptx}");
        }
        let twice = format!("// SHMEM_LAYOUT = 3\n{}", text("sm_90", "4"));
        assert_eq!(Header::read(&twice).unwrap().layout, 4, "a comment is no definition");
    }

    #[test]
    fn entries_are_listed() {
        assert_eq!(
            entries(&text("sm_90", "1")).collect::<Vec<_>>(),
            ["shmem$a", "shmem$b_2"]
        );
    }
    #[test]
    fn an_entry_is_found_by_symbol_or_by_an_unambiguous_name() {
        let symbols = ["a$ring$01", "a$fill$02$0", "a$fill$02$1", "plain"].map(String::from);
        assert_eq!(find_entry(&symbols, "ring"), Ok("a$ring$01"));
        assert_eq!(find_entry(&symbols, "a$fill$02$1"), Ok("a$fill$02$1"));
        assert_eq!(find_entry(&symbols, "plain"), Ok("plain"));
        for name in ["fill", "a", "other"] {
            let error = find_entry(&symbols, name).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("a$ring$01, a$fill$02$0"),
                "{error}"
            );
        }
    }
}
