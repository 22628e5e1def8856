//! `SHMEM_LOG`: what this library says of itself, through `tracing`.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Prints log lines to standard error as `SHMEM_LOG` says: `error`, `warn`, `info`, `debug`, `trace`, or by crate, as in
/// `shmem_host=debug,shmem_sim=info`. Does nothing where the variable is unset, and where the program has a subscriber.
///
/// Programs with a `tracing` subscriber of their own need none of this: the lines come under the crates' names.
///
/// ```
/// shmem_host::init_logging()?;
/// # Ok::<(), shmem_host::ConfigError>(())
/// ```
///
/// # Errors
/// [`ConfigError::Text`](crate::ConfigError::Text) where the text is not understood.
pub fn init_logging() -> Result<(), crate::ConfigError> {
    const NAME: &str = "SHMEM_LOG";
    let Some(value) = std::env::var(NAME).ok().filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let targets = value.parse::<Targets>().map_err(|_| crate::ConfigError::Text {
        name: NAME,
        value,
        expected: "error, warn, info, debug or trace, or those by crate, as in shmem_host=debug",
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // An error means that the program has a subscriber, which gets the lines.
    let _ = tracing_subscriber::registry().with(lines).with(targets).try_init();
    Ok(())
}
