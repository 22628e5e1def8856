//! Any bytes, in pieces of any size, to the decoder of messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| shmem_bootstrap::fuzzing::decode(input.1, input.0.into()));
