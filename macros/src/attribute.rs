//! What stands in the parentheses of `#[kernel(..)]`.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{GenericArgument, Ident, LitInt, Token, parenthesized};

/// The threads of a block that a kernel accepts.
#[derive(Clone, Copy)]
pub(crate) enum Bounds {
    Any,
    AtMost(u32),
    Exactly([u32; 3]),
}

pub(crate) struct Options {
    pub(crate) collective: bool,
    pub(crate) programmatic: bool,
    pub(crate) bounds: Bounds,
    /// The arguments of each instance of a generic kernel.
    pub(crate) instances: Vec<Punctuated<GenericArgument, Token![,]>>,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut options = Self {
            collective: false,
            programmatic: false,
            bounds: Bounds::Any,
            instances: vec![],
        };
        while !input.is_empty() {
            if input.peek(Token![for]) {
                options.instances.push(instance(input)?);
            } else {
                let name: Ident = input.parse()?;
                match name.to_string().as_str() {
                    "collective" => options.collective = true,
                    "programmatic" => options.programmatic = true,
                    "block" | "max_block" if !matches!(options.bounds, Bounds::Any) => {
                        return Err(syn::Error::new(
                            name.span(),
                            "a kernel has one bound: `block` or `max_block`, once",
                        ));
                    }
                    "block" => {
                        input.parse::<Token![=]>()?;
                        options.bounds = Bounds::Exactly(shape(input)?);
                    }
                    "max_block" => {
                        input.parse::<Token![=]>()?;
                        let n: LitInt = input.parse()?;
                        options.bounds = Bounds::AtMost(threads(&[&n])?[0]);
                    }
                    _ => {
                        return Err(syn::Error::new(
                            name.span(),
                            "expected `collective`, `programmatic`, `block = N`, `max_block = N` or `for<..>`",
                        ));
                    }
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

/// `for<f32, 4096>`
fn instance(input: ParseStream) -> syn::Result<Punctuated<GenericArgument, Token![,]>> {
    input.parse::<Token![for]>()?;
    input.parse::<Token![<]>()?;
    let mut arguments = Punctuated::new();
    while !input.peek(Token![>]) {
        arguments.push_value(input.parse()?);
        if !input.peek(Token![>]) {
            arguments.push_punct(input.parse()?);
        }
    }
    input.parse::<Token![>]>()?;
    Ok(arguments)
}

/// `256` or `(16, 16)` or `(8, 8, 4)`
fn shape(input: ParseStream) -> syn::Result<[u32; 3]> {
    let sides: Vec<LitInt> = if input.peek(syn::token::Paren) {
        let inner;
        parenthesized!(inner in input);
        Punctuated::<LitInt, Token![,]>::parse_terminated(&inner)?
            .into_iter()
            .collect()
    } else {
        vec![input.parse()?]
    };
    let n = threads(&sides.iter().collect::<Vec<_>>())?;
    match n[..] {
        [x] => Ok([x, 1, 1]),
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(input.error("a block has one to three sides")),
    }
}

/// The numbers, of which the product is a block that every GPU takes.
fn threads(sides: &[&LitInt]) -> syn::Result<Vec<u32>> {
    let n: Vec<u32> = sides.iter().map(|s| s.base10_parse()).collect::<syn::Result<_>>()?;
    let product = n.iter().try_fold(1u32, |p, &x| p.checked_mul(x));
    match sides.first() {
        Some(first) if !matches!(product, Some(1..=1024)) => {
            Err(syn::Error::new(first.span(), "a block has 1 to 1024 threads"))
        }
        _ => Ok(n),
    }
}
