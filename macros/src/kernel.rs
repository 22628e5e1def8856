//! `#[kernel]`: from one function, an entry for the GPU and a typed description for the host.

use crate::attribute::{Bounds, Options};
use crate::symbol::symbol;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::sync::{Mutex, PoisonError};
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, GenericParam, Ident, ItemFn, Pat, PatType, ReturnType, Type};

pub(crate) fn expand(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    let kernel = Kernel::new(options, function)?;
    let (description, entries) = (kernel.description(), kernel.entries());
    let (body, signature) = (kernel.body(), kernel.signature());
    let cfg = &kernel.cfg;
    Ok(quote! {
        #description
        #(#cfg)*
        const _: () = {
            #body
            #signature
            #entries
        };
    })
}

/// The symbol of the static that holds this crate's PTX, once a kernel has defined it. A compiler process compiles one crate.
static IMAGES: Mutex<Option<String>> = Mutex::new(None);

struct Kernel<'a> {
    options: &'a Options,
    function: &'a ItemFn,
    /// The parameters that a launch passes.
    parameters: Vec<&'a PatType>,
    cfg: Vec<&'a Attribute>,
    docs: Vec<&'a Attribute>,
    symbol: String,
}

impl<'a> Kernel<'a> {
    fn new(options: &'a Options, function: &'a ItemFn) -> syn::Result<Self> {
        refuse_qualifiers(function)?;
        let mut parameters = vec![];
        for input in &function.sig.inputs {
            match input {
                FnArg::Receiver(r) => {
                    return Err(syn::Error::new(r.span(), "a kernel is a function: it takes no self"));
                }
                FnArg::Typed(t) => parameters.push(t),
            }
        }
        if options.collective {
            match parameters.first() {
                Some(first) if is_token(&first.ty) => {
                    parameters.remove(0);
                }
                other => {
                    return Err(syn::Error::new(
                        other.map_or(function.sig.ident.span(), |p| p.ty.span()),
                        "a collective kernel's first parameter is its token: `all: Collective`",
                    ));
                }
            }
        }
        for parameter in &parameters {
            refuse_type(&parameter.ty)?;
        }
        let generic = !function.sig.generics.params.is_empty();
        if generic && options.instances.is_empty() {
            return Err(syn::Error::new(
                function.sig.generics.span(),
                "a generic kernel lists the instances to compile: #[kernel(for<f32, 4>, for<bf16, 8>)]",
            ));
        }
        if !generic && !options.instances.is_empty() {
            return Err(syn::Error::new(
                function.sig.ident.span(),
                "`for<..>` lists instances of a generic kernel, and this one has no generic parameters",
            ));
        }
        let of = |name| function.attrs.iter().filter(move |a| a.path().is_ident(name));
        Ok(Self {
            options,
            function,
            parameters,
            cfg: of("cfg").collect(),
            docs: of("doc").collect(),
            symbol: symbol(&function.sig.ident),
        })
    }

    fn name(&self) -> &Ident {
        &self.function.sig.ident
    }

    /// The generic arguments of each instance, and its symbol. A plain kernel is its own only instance.
    fn instances(&self) -> Vec<(TokenStream, String)> {
        if self.options.instances.is_empty() {
            return vec![(quote!(), self.symbol.clone())];
        }
        let numbered = self.options.instances.iter().enumerate();
        numbered
            .map(|(i, arguments)| (quote!(<#arguments>), format!("{}${i}", self.symbol)))
            .collect()
    }

    /// The function itself, compiled for both sides.
    fn body(&self) -> TokenStream {
        let ItemFn { sig, block, attrs, .. } = self.function;
        let attrs = attrs
            .iter()
            .filter(|a| !a.path().is_ident("doc") && !a.path().is_ident("cfg"));
        quote! {
            #(#attrs)*
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::inline_always, clippy::needless_pass_by_value)]
            #sig #block
        }
    }

    /// `__Signature::A0` .. are the parameters' types, so that an entry names them for its instance without rewriting tokens.
    fn signature(&self) -> TokenStream {
        let (name, generics) = (self.name(), &self.function.sig.generics);
        let (impl_generics, arguments, bounds) = generics.split_for_impl();
        let types: Vec<_> = self.parameters.iter().map(|p| &p.ty).collect();
        let names: Vec<_> = numbered("A", types.len());
        quote! {
            #[allow(unreachable_pub, missing_docs)]
            pub trait __Signature { #(type #names;)* }
            impl #impl_generics __Signature for #name #arguments #bounds { #(type #names = #types;)* }
        }
    }

    /// The kernel's name as a type, and on the host as a function that takes its arguments.
    fn description(&self) -> TokenStream {
        let (name, vis, cfg, docs) = (self.name(), &self.function.vis, &self.cfg, &self.docs);
        let generics = &self.function.sig.generics;
        let params = generics.params.iter().map(without_bounds);
        let phantoms = generics.params.iter().filter_map(|p| match p {
            GenericParam::Type(t) => Some(&t.ident),
            _ => None,
        });
        let types: Vec<_> = self.parameters.iter().map(|p| &p.ty).collect();
        let names: Vec<_> = self
            .parameters
            .iter()
            .enumerate()
            .map(|(i, p)| parameter_name(i, &p.pat))
            .collect();
        let host_params = generics.params.iter();
        let arguments: Vec<_> = generics.params.iter().map(argument).collect();
        let bounds = generics
            .where_clause
            .as_ref()
            .map(|w| w.predicates.iter().collect::<Vec<_>>())
            .unwrap_or_default();
        let this = if arguments.is_empty() {
            quote!(#name)
        } else {
            quote!(#name<#(#arguments),*>)
        };
        quote! {
            #(#cfg)*
            #[allow(non_camel_case_types, dead_code)]
            #[doc(hidden)]
            #vis struct #name<#(#params),*> { _instance: ::core::marker::PhantomData<fn() -> (#(#phantoms,)*)> }

            #(#cfg)*
            #(#docs)*
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(clippy::too_many_arguments, clippy::must_use_candidate)]
            #vis fn #name<#(#host_params),*>(#(#names: impl ::shmem::IntoArg<#types>),*) -> ::shmem::Call<#this>
            where
                #this: ::shmem::Kernel<Args = (#(#types,)*)>,
                #(#bounds),*
            {
                ::shmem::Call::__new((#(::shmem::IntoArg::into_arg(#names),)*))
            }
        }
    }

    fn entries(&self) -> TokenStream {
        let instances = self.instances();
        let device = instances
            .iter()
            .enumerate()
            .map(|(i, (arguments, symbol))| self.device_entry(i, arguments, symbol));
        let host = instances
            .iter()
            .map(|(arguments, symbol)| self.host_entry(arguments, symbol));
        let images = self.images();
        quote! {
            #(#device)*
            #images
            #(#host)*
        }
    }

    /// The package's PTX: one static for all kernels of a crate, because each may be megabytes. The first kernel that is
    /// expanded defines it, and is also the one that reports a GPU build that failed or is missing; the others name it.
    fn images(&self) -> TokenStream {
        let mut holder = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(symbol) = &*holder {
            return quote! {
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: the first kernel of this crate defines it, with this type.
                unsafe extern "Rust" {
                    #[link_name = #symbol]
                    safe static IMAGES: ::shmem::Images;
                }
            };
        }
        let symbol = format!("images${}", self.symbol);
        let define = quote_spanned! {Span::call_site()=>
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(clippy::unreadable_literal)]
            // SAFETY: no other crate has a kernel of this name at this place.
            #[unsafe(export_name = #symbol)]
            static IMAGES: ::shmem::Images = include!(env!(
                "SHMEM_IMAGES",
                "this package has kernels, but no build script that compiles them: add build.rs with \
                 `fn main() { shmem_build::kernels().build(); }`, and shmem-build to [build-dependencies]"
            ));
            #[cfg(not(target_arch = "nvptx64"))]
            const _: () = ::shmem::__check_images(&IMAGES);
        };
        *holder = Some(symbol);
        define
    }

    fn device_entry(&self, i: usize, arguments: &TokenStream, symbol: &str) -> TokenStream {
        let (name, entry) = (self.name(), format_ident!("__entry{i}"));
        let text = name.to_string();
        let turbofish = if arguments.is_empty() {
            quote!()
        } else {
            quote!(::#arguments)
        };
        let (values, types) = (
            numbered("__a", self.parameters.len()),
            numbered("A", self.parameters.len()),
        );
        let (token, slot) = (self.token(), self.slot());
        let bounds = match self.options.bounds {
            Bounds::Any => None,
            Bounds::AtMost(n) => Some(format!("// shmem-entry {symbol} maxntid {n}")),
            Bounds::Exactly([x, y, z]) => Some(format!("// shmem-entry {symbol} reqntid {x},{y},{z}")),
        };
        let bounds = bounds.map(|comment| {
            let module = format_ident!("bounds{i}");
            quote! {
                #[cfg(target_arch = "nvptx64")]
                mod #module { ::core::arch::global_asm!(#comment); }
            }
        });
        let follow = self.options.programmatic.then(|| quote!(::shmem::__follow();));
        quote! {
            #bounds
            #[cfg(target_arch = "nvptx64")]
            #[unsafe(export_name = #symbol)]
            unsafe extern "ptx-kernel" fn #entry(#(#values: <#name #arguments as __Signature>::#types,)* #slot) {
                #follow
                let _span = ::shmem::__kernel_begins(#text);
                #name #turbofish (#token #(#values),*)
            }
        }
    }

    fn host_entry(&self, arguments: &TokenStream, symbol: &str) -> TokenStream {
        let name = self.name();
        let text = name.to_string();
        let turbofish = if arguments.is_empty() {
            quote!()
        } else {
            quote!(::#arguments)
        };
        let n = self.parameters.len();
        let (values, types) = (numbered("__a", n), numbered("A", n));
        let index: Vec<_> = (0..n).map(syn::Index::from).collect();
        let (token, slot) = (self.token(), self.slot().unwrap_or_else(|| quote!(_slot: u32)));
        let Options {
            collective,
            programmatic,
            ..
        } = *self.options;
        let bounds = match self.options.bounds {
            Bounds::Any => quote!(::shmem::BlockBounds::Any),
            Bounds::AtMost(n) => quote!(::shmem::BlockBounds::AtMost(#n)),
            Bounds::Exactly([x, y, z]) => quote!(::shmem::BlockBounds::Exactly([#x, #y, #z])),
        };
        // A plain kernel names each type as the user wrote it, so that one that is no argument is reported there. A generic
        // kernel's types are spelt with its parameters, which mean nothing here.
        let plain = self.options.instances.is_empty();
        let regions = self.parameters.iter().zip(&types).zip(&index).map(|((p, a), i)| {
            let ty = &p.ty;
            let ty = if plain {
                quote!(#ty)
            } else {
                quote!(<#name #arguments as __Signature>::#a)
            };
            // Errors point at the type; names are the macro's own, also where another macro's caller wrote the parameters.
            let span = p.ty.span().resolved_at(Span::call_site());
            quote_spanned! {span=> <#ty as ::shmem::KernelArg>::regions(&args.#i, visit); }
        });
        quote! {
            #[cfg(not(target_arch = "nvptx64"))]
            impl ::shmem::Kernel for #name #arguments {
                type Args = (#(<#name #arguments as __Signature>::#types,)*);
                const NAME: &'static str = #text;
                const SYMBOL: &'static str = #symbol;
                const COLLECTIVE: bool = #collective;
                const PROGRAMMATIC: bool = #programmatic;
                const BOUNDS: ::shmem::BlockBounds = #bounds;
                const PLACE: (&'static str, u32) = (file!(), line!());
                fn images() -> &'static ::shmem::Images { &IMAGES }
                #[allow(clippy::unused_unit)]
                fn copied(args: &Self::Args) -> Self::Args {
                    let _ = args;
                    (#(::core::clone::Clone::clone(&args.#index),)*)
                }
                fn run(args: Self::Args, #slot) {
                    let (#(#values,)*) = args;
                    #name #turbofish (#token #(#values),*)
                }
                fn addresses(args: &Self::Args, f: &mut dyn ::core::ops::FnMut(*const ())) {
                    let _ = (args, &f);
                    // An argument without bytes is no parameter of the entry.
                    #(if ::core::mem::size_of_val(&args.#index) != 0 { f((&raw const args.#index).cast()); })*
                }
                fn regions(args: &Self::Args, visit: &mut dyn ::core::ops::FnMut(::shmem::Region)) {
                    let _ = (args, &visit);
                    #(#regions)*
                }
            }
        }
    }

    /// The parameter that a collective kernel's entry has behind its arguments.
    fn slot(&self) -> Option<TokenStream> {
        self.options.collective.then(|| quote!(slot: u32))
    }

    fn token(&self) -> Option<TokenStream> {
        self.options.collective.then(|| {
            quote! {
                // SAFETY: `launch!` refuses collective kernels, so that only a collective launch comes here, with a slot of its own.
                unsafe { ::shmem::Collective::__new(slot) },
            }
        })
    }
}

fn numbered(prefix: &str, n: usize) -> Vec<Ident> {
    (0..n).map(|i| format_ident!("{prefix}{i}")).collect()
}

fn refuse_qualifiers(function: &ItemFn) -> syn::Result<()> {
    let sig = &function.sig;
    let refuse = |span: Span, text: &str| Err(syn::Error::new(span, text));
    if let ReturnType::Type(_, t) = &sig.output {
        return refuse(
            t.span(),
            "a kernel returns nothing: write its result to a SymSlice or a Global",
        );
    }
    if let Some(a) = &sig.asyncness {
        return refuse(a.span(), "a kernel can't be async");
    }
    if let Some(c) = &sig.constness {
        return refuse(c.span(), "a kernel can't be const");
    }
    if let Some(u) = &sig.unsafety {
        return refuse(
            u.span(),
            "a kernel is a safe function: put `unsafe` around what needs it inside",
        );
    }
    if let Some(abi) = &sig.abi {
        return refuse(abi.span(), "#[kernel] sets the ABI: leave `extern` out");
    }
    if let Some(v) = &sig.variadic {
        return refuse(v.span(), "a kernel's parameters are fixed");
    }
    if let Some(GenericParam::Lifetime(l)) = sig
        .generics
        .params
        .iter()
        .find(|p| matches!(p, GenericParam::Lifetime(_)))
    {
        return refuse(
            l.span(),
            "a kernel borrows nothing from the host: pass handles (SymSlice, Global) by value",
        );
    }
    Ok(())
}

fn refuse_type(ty: &Type) -> syn::Result<()> {
    match ty {
        Type::Reference(_) => Err(syn::Error::new(
            ty.span(),
            "a kernel can't take a reference: the host's memory is not the GPU's. Pass a handle (SymSlice<T>, Global<T>) by value",
        )),
        Type::ImplTrait(_) => Err(syn::Error::new(
            ty.span(),
            "name the type: a kernel's instances are listed with #[kernel(for<..>)] on a generic parameter",
        )),
        ty if is_token(ty) => Err(syn::Error::new(
            ty.span(),
            "only a kernel that is launched on every PE together gets a Collective: write #[kernel(collective)] and make it the first parameter",
        )),
        _ => Ok(()),
    }
}

fn is_token(ty: &Type) -> bool {
    matches!(ty, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Collective"))
}

/// `T: Pod` as `T`, `const N: usize = 4` as `const N: usize`: what a struct without bounds declares.
fn without_bounds(param: &GenericParam) -> TokenStream {
    match param {
        GenericParam::Type(t) => t.ident.to_token_stream(),
        GenericParam::Const(c) => {
            let (ident, ty) = (&c.ident, &c.ty);
            quote!(const #ident: #ty)
        }
        GenericParam::Lifetime(l) => l.to_token_stream(),
    }
}

fn argument(param: &GenericParam) -> TokenStream {
    match param {
        GenericParam::Type(t) => t.ident.to_token_stream(),
        GenericParam::Const(c) => c.ident.to_token_stream(),
        GenericParam::Lifetime(l) => l.lifetime.to_token_stream(),
    }
}

fn parameter_name(i: usize, pat: &Pat) -> Ident {
    match pat {
        Pat::Ident(p) if !p.ident.to_string().starts_with('_') => p.ident.clone(),
        _ => format_ident!("__arg{i}"),
    }
}
