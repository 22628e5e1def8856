//! `shared!`: one symbol of shared memory for each place in the source.

use crate::symbol::{name_hash, place_hash};
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Token, Type, bracketed};

pub(crate) struct Declaration {
    name: Ident,
    element: Type,
    len: Expr,
}

impl Parse for Declaration {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let inner;
        bracketed!(inner in input);
        let element = inner.parse()?;
        inner.parse::<Token![;]>()?;
        let len = inner.parse()?;
        Ok(Self { name, element, len })
    }
}

pub(crate) fn expand(d: &Declaration) -> TokenStream {
    let Declaration { name, element, len } = d;
    let krate = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    let hash = place_hash(name.span()) ^ name_hash(&krate);
    let symbol = format!("{krate}$shared${hash:016x}");
    let declare = format!(".shared .align 16 .b8 {symbol}[{{bytes}}];");
    let address = format!("mov.u32 {{at}}, {symbol};");
    quote! {
        let #name: ::shmem::Shared<#element> = {
            const _: () = ::shmem::shared::__check_array::<#element>(#len);
            #[cfg(target_arch = "nvptx64")]
            {
                mod __shared {
                    #[allow(unused_imports)]
                    use super::*;
                    // Outside every function: there it would be copied wherever the function is inlined.
                    ::core::arch::global_asm!(#declare, bytes = const (#len) * ::core::mem::size_of::<#element>());
                }
                let at: u32;
                // SAFETY: takes an address.
                #[allow(unused_unsafe)]
                unsafe {
                    ::core::arch::asm!(#address, at = out(reg32) at, options(pure, nomem, nostack));
                }
                ::shmem::Shared::__new(at as u64, (#len) as u64)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                ::shmem::shared::__hosted(#hash, #len)
            }
        };
    }
}
