//! The macros of `shmem`: use them through that crate, which documents and re-exports them.

mod argument;
mod attribute;
mod kernel;
mod print;
mod shared;
mod symbol;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Makes a kernel of a function: an entry in the package's PTX, and on the host a typed description of it.
///
/// | attribute | meaning |
/// |---|---|
/// | `collective` | launched on every PE together; the first parameter is the token `Collective` |
/// | `programmatic` | blocks may be placed while another such kernel ahead in the stream runs, and first wait for its end (PTX `griddepcontrol`) |
/// | `block = N`, `block = (x, y, z)` | launched with exactly this block (PTX `.reqntid`) |
/// | `max_block = N` | launched with at most N threads per block (PTX `.maxntid`) |
/// | `for<f32, 4096>` | an instance of a generic kernel; one for each that is launched |
///
/// Parameters are scalars, handles, arrays of them, and structs with `#[derive(KernelArg)]`. On the host the kernel's name
/// is a function that takes them (`&buffer` stands for its handle) and returns a `Call`, which `collective_launch!` launches.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(attribute as attribute::Options);
    let function = parse_macro_input!(item as syn::ItemFn);
    kernel::expand(&options, &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// `shared!(name: [T; N]);` declares an array in the block's shared memory and binds its handle to `name`.
///
/// T and N may name items of the enclosing module, but no generic parameter and nothing declared inside the function: the
/// array is one per place in the source, for all instances of a generic function.
#[proc_macro]
pub fn shared(item: TokenStream) -> TokenStream {
    shared::expand(&parse_macro_input!(item as shared::Declaration)).into()
}

/// Lets a `#[repr(C)]` struct of arguments be passed to a kernel.
#[proc_macro_derive(KernelArg)]
pub fn kernel_arg(item: TokenStream) -> TokenStream {
    argument::expand(&parse_macro_input!(item as syn::DeriveInput))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// `gpu_println!("x = {}, y = {y:.3}", x)`: prints a line from inside a kernel.
#[proc_macro]
pub fn gpu_println(item: TokenStream) -> TokenStream {
    print::expand(&parse_macro_input!(item as print::Line))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
