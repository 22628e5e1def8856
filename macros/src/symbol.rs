//! Names for the assembler, the same in both compilations and unlike any other.

use proc_macro2::Span;

/// A number for a place in the source. The compilations may name the file by different roots, so that only its last two
/// parts count.
pub(crate) fn place_hash(span: Span) -> u64 {
    let span = span.unwrap();
    let file = span.file();
    let mut parts = file.rsplit(['/', '\\']);
    let (name, folder) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let place = format!("{folder}/{name}:{}:{}", span.line(), span.column());
    place.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `<crate>$<name>$<hash>`, of letters, digits, `_` and `$` only.
pub(crate) fn symbol(name: &syn::Ident) -> String {
    let krate = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    let name = name.to_string();
    let name = name.trim_start_matches("r#");
    let hash = place_hash(proc_macro2::Span::call_site()) ^ name_hash(name);
    format!("{}${}${hash:08x}", ascii(&krate), ascii(name), hash = hash as u32)
}

pub(crate) fn name_hash(name: &str) -> u64 {
    name.bytes()
        .fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(u64::from(b)))
}

/// Rust's names may hold any letter; PTX's hold ASCII.
fn ascii(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .collect()
}
