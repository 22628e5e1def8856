//! `#[derive(KernelArg)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Index, Member};

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new(
            input.ident.span(),
            "only a struct of arguments can be a KernelArg",
        ));
    };
    if !is_repr_c(input)? {
        return Err(syn::Error::new(
            input.ident.span(),
            "add #[repr(C)]: the host and the device compiler must lay the struct out alike",
        ));
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let fields = data.fields.iter().enumerate().map(|(i, field)| {
        let member = field
            .ident
            .clone()
            .map_or_else(|| Member::Unnamed(Index::from(i)), Member::Named);
        let ty = &field.ty;
        quote_spanned! {ty.span()=> <#ty as ::shmem::KernelArg>::regions(&self.#member, visit); }
    });
    Ok(quote! {
        // SAFETY: laid out by C's rules, and every field is itself an argument.
        unsafe impl #generics ::shmem::KernelArg for #name #arguments #bounds {
            #[cfg(not(target_arch = "nvptx64"))]
            fn regions(&self, visit: &mut dyn ::core::ops::FnMut(::shmem::Region)) {
                #(#fields)*
            }
        }
    })
}

fn is_repr_c(input: &DeriveInput) -> syn::Result<bool> {
    let mut found = false;
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // `align(16)` and its like carry something in parentheses.
            if meta.input.peek(syn::token::Paren) {
                let inner;
                syn::parenthesized!(inner in meta.input);
                inner.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}
