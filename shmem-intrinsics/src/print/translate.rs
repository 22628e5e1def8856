//! From Rust's format to C's, when the kernel is compiled.

use super::{Format, Kind, Print, Spec};
use core::marker::PhantomData;

/// The arguments of a call: a tuple.
#[doc(hidden)]
pub trait Arguments: Copy {
    /// Kind of each.
    const KINDS: &'static [Kind];
    /// The words that C reads, one for each `{}`.
    fn word(self, spec: Spec) -> u64;
}

macro_rules! tuples { ($(($($name:ident $i:tt),*);)*) => { $(
    impl<$($name: Print),*> Arguments for ($($name,)*) {
        const KINDS: &'static [Kind] = &[$($name::__KIND),*];
        #[inline(always)]
        fn word(self, spec: Spec) -> u64 {
            match spec.argument {
                $($i => if spec.radix == 0 { self.$i.__word() } else { self.$i.__hex() },)*
                _ => 0,
            }
        }
    }
)* } }
tuples! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

/// The translation of F for arguments A, ended by 0; N bytes are enough for it.
struct Translated<F, A, const N: usize>(PhantomData<(F, A)>);

impl<F: Format, A: Arguments, const N: usize> Translated<F, A, N> {
    const TEXT: [u8; N] = {
        let mut out = Out { bytes: [0; N], len: 0 };
        let mut i = 0;
        loop {
            out.literal(F::TEXT[i]);
            if i == F::SPECS.len() {
                break;
            }
            out.spec(F::SPECS[i], A::KINDS[F::SPECS[i].argument]);
            i += 1;
        }
        out.byte(b'\n');
        out.byte(0);
        out.bytes
    };
}

struct Out<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Out<N> {
    const fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    const fn text(&mut self, text: &str) {
        let mut i = 0;
        while i < text.len() {
            self.byte(text.as_bytes()[i]);
            i += 1;
        }
    }

    const fn literal(&mut self, text: &str) {
        let mut i = 0;
        while i < text.len() {
            let byte = text.as_bytes()[i];
            if byte == b'%' {
                self.byte(b'%');
            }
            self.byte(byte);
            i += 1;
        }
    }

    const fn number(&mut self, n: u32) {
        if n >= 10 {
            self.number(n / 10);
        }
        self.byte(b'0' + (n % 10) as u8);
    }

    const fn spec(&mut self, s: Spec, kind: Kind) {
        let integer = matches!(kind, Kind::Signed | Kind::Unsigned);
        assert!(
            integer || s.radix == 0,
            "gpu_println!: only integers are printed in hexadecimal"
        );
        let mut width = s.width;
        if s.radix != 0 && s.alternate {
            // C leaves the prefix out before a zero, and writes it in capitals for X.
            self.text("0x");
            width = width.saturating_sub(2);
        }
        self.byte(b'%');
        // Rust writes words from the left, and numbers from the right as C does.
        if s.align == b'<' || matches!(kind, Kind::Bool) && s.align == 0 {
            self.byte(b'-');
        }
        if s.zero {
            self.byte(b'0');
        }
        if width > 0 {
            self.number(width);
        }
        match (kind, s.precision) {
            (Kind::Float, Some(decimals)) => {
                self.byte(b'.');
                self.number(decimals);
                self.byte(b'f');
            }
            (Kind::Float, None) => self.byte(b'g'),
            (Kind::Bool, _) => self.byte(b's'),
            (Kind::Signed | Kind::Unsigned, _) => {
                self.text("ll");
                self.byte(match kind {
                    _ if s.radix != 0 => s.radix,
                    Kind::Signed => b'd',
                    _ => b'u',
                });
            }
        }
    }
}

/// Prints the arguments by the format.
#[doc(hidden)]
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn __print<F: Format, A: Arguments, const N: usize>(arguments: A) {
    // As many as there can be `{}` in one call.
    let mut words = [0u64; 16];
    let mut i = 0;
    while i < F::SPECS.len() {
        words[i] = arguments.word(F::SPECS[i]);
        i += 1;
    }
    let text: &'static [u8; N] = const { &Translated::<F, A, N>::TEXT };
    crate::arch::print(text.as_ptr(), &raw const words);
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! format {
        ($($text:literal)* ; $($spec:expr),*) => {
            struct F;
            impl Format for F {
                const TEXT: &'static [&'static str] = &[$($text),*];
                const SPECS: &'static [Spec] = &[$($spec),*];
            }
        };
    }

    const PLAIN: Spec = Spec {
        argument: 0,
        align: 0,
        zero: false,
        alternate: false,
        width: 0,
        precision: None,
        radix: 0,
    };

    fn text(buffer: &[u8]) -> &str {
        core::ffi::CStr::from_bytes_until_nul(buffer).unwrap().to_str().unwrap()
    }

    #[test]
    fn formats_become_those_of_c() {
        format!("100% of " ", " " is " "." ; PLAIN, Spec { argument: 1, precision: Some(3), ..PLAIN },
            Spec { argument: 2, width: 7, ..PLAIN });
        assert_eq!(
            text(&Translated::<F, (i32, f32, bool), 128>::TEXT),
            "100%% of %lld, %.3f is %-7s.\n"
        );
        assert_eq!(
            text(&Translated::<F, (u8, f64, u64), 128>::TEXT),
            "100%% of %llu, %.3f is %7llu.\n"
        );
        assert_eq!(
            text(&Translated::<F, (f32, i64, f32), 128>::TEXT),
            "100%% of %g, %lld is %7g.\n"
        );
    }

    #[test]
    fn hexadecimal() {
        format!("" " " "" ; Spec { radix: b'x', alternate: true, ..PLAIN },
            Spec { radix: b'X', zero: true, width: 12, align: b'>', ..PLAIN });
        assert_eq!(text(&Translated::<F, (i32,), 128>::TEXT), "0x%llx %012llX\n");
        assert_eq!((-1i32,).word(F::SPECS[0]), 0xffff_ffff);
        assert_eq!((-1i32,).word(PLAIN), u64::MAX);
    }
}
