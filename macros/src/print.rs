//! `gpu_println!`: reads a Rust format, for `println!` on the host and for C's `vprintf` on the GPU.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitStr, Token};

/// Arguments that a call can have (the tuples of `shmem::print`), and `{}` (its words).
const ARGUMENTS: usize = 8;
const HOLES: usize = 16;

pub(crate) struct Line {
    format: LitStr,
    arguments: Vec<Expr>,
}

impl Parse for Line {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        if input.is_empty() {
            let format = LitStr::new("", Span::call_site());
            return Ok(Self {
                format,
                arguments: Vec::new(),
            });
        }
        let format = input
            .parse()
            .map_err(|e| Error::new(e.span(), "gpu_println! begins with its format, a literal"))?;
        let mut arguments = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            if input.peek(Ident) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                return Err(
                    input.error("gpu_println! has no named arguments: write `{name}` for a variable of that name")
                );
            }
            arguments.push(input.parse()?);
        }
        Ok(Self { format, arguments })
    }
}

/// A `{}`.
#[derive(Default, Debug, PartialEq)]
struct Hole {
    argument: usize,
    align: Option<char>,
    zero: bool,
    alternate: bool,
    width: u32,
    precision: Option<u32>,
    radix: Option<char>,
}

/// Text between holes, one more than those; arguments that the holes name.
#[derive(Default, Debug, PartialEq)]
struct Parsed {
    text: Vec<String>,
    holes: Vec<Hole>,
    names: Vec<String>,
    used: Vec<usize>,
}

/// `positional` arguments are given; names follow them.
fn parse(format: &str, positional: usize) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let (mut text, mut next) = (String::new(), 0);
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if (c == '{' || c == '}') && rest.peek() == Some(&c) {
            rest.next();
            text.push(c);
            continue;
        }
        match c {
            '}' => return Err("a `}` without its `{`: write `}}` for the character".into()),
            '\0' => return Err("the text ends at a 0 character on the GPU".into()),
            '{' => {}
            _ => {
                text.push(c);
                continue;
            }
        }
        let mut inside = String::new();
        loop {
            match rest.next() {
                Some('}') => break,
                Some(c) => inside.push(c),
                None => return Err("a `{` without its `}`: write `{{` for the character".into()),
            }
        }
        let (name, spec) = inside.split_once(':').unwrap_or((&inside, ""));
        let argument = argument(name.trim(), positional, &mut next, &mut parsed.names)?;
        parsed.used.push(argument);
        parsed.holes.push(hole(spec.trim_end(), argument)?);
        parsed.text.push(std::mem::take(&mut text));
    }
    parsed.text.push(text);
    if parsed.holes.len() > HOLES {
        return Err(format!("gpu_println! prints at most {HOLES} values"));
    }
    Ok(parsed)
}

fn argument(name: &str, positional: usize, next: &mut usize, names: &mut Vec<String>) -> Result<usize, String> {
    let place = if name.is_empty() {
        *next += 1;
        *next - 1
    } else if let Ok(place) = name.parse() {
        place
    } else {
        let known = names.iter().position(|n| n == name);
        let place = known.unwrap_or(names.len());
        if known.is_none() {
            names.push(name.into());
        }
        return Ok(positional + place);
    };
    if place < positional {
        Ok(place)
    } else {
        Err(format!("argument {place} is missing: the call has {positional}"))
    }
}

/// What stands behind the colon.
fn hole(spec: &str, argument: usize) -> Result<Hole, String> {
    let refuse = || {
        Err(format!(
            "gpu_println! can't print by `{{:{spec}}}`: it knows width, `<`, `>`, `0`, precision, `x`, `X` and `#x`"
        ))
    };
    let mut hole = Hole {
        argument,
        ..Hole::default()
    };
    let mut rest = spec;
    let mut take = |c: &[char]| {
        let found = rest.chars().next().filter(|x| c.contains(x));
        if found.is_some() {
            rest = &rest[1..];
        }
        found
    };
    hole.align = take(&['<', '>']);
    hole.alternate = take(&['#']).is_some();
    hole.zero = take(&['0']).is_some();
    let digits = |rest: &mut &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        *rest = after;
        number.parse::<u32>().ok().filter(|n| *n <= 99)
    };
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let Some(width) = digits(&mut rest) else {
            return refuse();
        };
        hole.width = width;
    }
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        let Some(precision) = digits(&mut rest) else {
            return refuse();
        };
        hole.precision = Some(precision);
    }
    hole.radix = match rest {
        "" => None,
        "x" | "X" => rest.chars().next(),
        _ => return refuse(),
    };
    // The prefix has to stand right before the digits.
    let misplaced = hole.alternate && (hole.radix.is_none() || hole.width > 0 && !hole.zero);
    // C's 0 and - exclude each other, Rust's 0 wins over any alignment.
    if misplaced {
        return refuse();
    }
    if hole.zero {
        hole.align = None;
    }
    Ok(hole)
}

pub(crate) fn expand(line: &Line) -> syn::Result<TokenStream> {
    let span = line.format.span();
    let parsed = parse(&line.format.value(), line.arguments.len()).map_err(|message| Error::new(span, message))?;
    if let Some(unused) = (0..line.arguments.len()).find(|i| !parsed.used.contains(i)) {
        return Err(Error::new(
            line.arguments[unused].span(),
            "this argument is never printed",
        ));
    }
    let mut arguments: Vec<TokenStream> = line.arguments.iter().map(|a| quote!(#a)).collect();
    for name in &parsed.names {
        let name: Ident = syn::parse_str(name).map_err(|_| {
            Error::new(
                span,
                format!("`{{{name}}}` is no variable: put expressions behind the format"),
            )
        })?;
        arguments.push(quote_spanned!(span=> #name));
    }
    if arguments.len() > ARGUMENTS {
        return Err(Error::new(
            span,
            format!("gpu_println! takes at most {ARGUMENTS} arguments"),
        ));
    }
    let spans = line
        .arguments
        .iter()
        .map(Spanned::span)
        .chain(parsed.names.iter().map(|_| span));
    let bound: Vec<Ident> = (0..arguments.len())
        .map(|i| Ident::new(&format!("__x{i}"), Span::mixed_site()))
        .collect();
    // The check is of the user's own tokens, so that a refusal points at them.
    let printable = arguments
        .iter()
        .zip(spans)
        .map(|(x, span)| quote_spanned!(span=> ::shmem::print::__printable(&(#x))));
    let device = device(&parsed, &bound);
    let host = LitStr::new(&host(&parsed), span);
    Ok(quote! {
        match (#(#printable,)*) {
            (#(#bound,)*) => {
                #[cfg(target_arch = "nvptx64")]
                { #device }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    ::shmem::hook::need_stack();
                    ::std::println!(#host, #(#bound),*)
                }
            }
        }
    })
}

fn device(parsed: &Parsed, bound: &[Ident]) -> TokenStream {
    let text = &parsed.text;
    // A literal may double in length, and a hole becomes at most `0x%-099.99lld`.
    let bytes = text.iter().map(|t| 2 * t.len()).sum::<usize>() + 16 * parsed.holes.len() + 2;
    let specs = parsed.holes.iter().map(|h| {
        let Hole {
            argument,
            zero,
            alternate,
            width,
            ..
        } = h;
        let byte = |c: Option<char>| c.map_or(0, |c| c as u8);
        let (align, radix) = (byte(h.align), byte(h.radix));
        let precision = h.precision.map_or(
            quote!(::core::option::Option::None),
            |n| quote!(::core::option::Option::Some(#n)),
        );
        quote!(::shmem::print::Spec {
            argument: #argument, align: #align, zero: #zero, alternate: #alternate, width: #width,
            precision: #precision, radix: #radix,
        })
    });
    quote! {
        struct __Format;
        impl ::shmem::print::Format for __Format {
            const TEXT: &'static [&'static str] = &[#(#text),*];
            const SPECS: &'static [::shmem::print::Spec] = &[#(#specs),*];
        }
        ::shmem::print::__print::<__Format, _, #bytes>((#(*#bound,)*));
    }
}

/// The format again, each hole with the number of its argument.
fn host(parsed: &Parsed) -> String {
    let mut format = String::new();
    for (i, text) in parsed.text.iter().enumerate() {
        format += &text.replace('{', "{{").replace('}', "}}");
        let Some(h) = parsed.holes.get(i) else { break };
        format.push('{');
        format += &h.argument.to_string();
        format.push(':');
        format.extend(h.align);
        format.extend(h.alternate.then_some('#'));
        format.extend(h.zero.then_some('0'));
        if h.width > 0 {
            format += &h.width.to_string();
        }
        if let Some(decimals) = h.precision {
            format.push('.');
            format += &decimals.to_string();
        }
        format.extend(h.radix);
        format.push('}');
    }
    format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_and_written_again() {
        let parsed = parse("a{{b}} {} {1:>8.3} {x:#x} {x} {:<5}", 2).unwrap();
        assert_eq!(host(&parsed), "a{{b}} {0:} {1:>8.3} {2:#x} {2:} {1:<5}");
        assert_eq!(parsed.names, ["x"]);
        assert_eq!(parsed.text[0], "a{b} ");
    }

    #[test]
    fn what_c_cannot_do_is_refused() {
        for bad in [
            "{:?}", "{:e}", "{:^5}", "{:*>5}", "{:+}", "{:1$}", "{:.*}", "{:#}", "{:#6x}", "{:b}", "{", "}", "{}{}",
            "{:100}",
        ] {
            assert!(parse(bad, 1).is_err(), "{bad}");
        }
    }
}
