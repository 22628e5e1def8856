//! Waiting for the device without being stuck in the driver: another PE's failure and the time limit end the wait.

use super::error::CudaError;
use crate::backend::{Halt, Watch};
use std::thread;
use std::time::{Duration, Instant};

/// Looks that are made without giving the core away: some 50 us.
const SPINS: u32 = 100;
/// Looks after each of which other threads may run.
const YIELDS: u32 = 1000;
const SLEEP: Duration = Duration::from_micros(100);

pub(super) fn poll(watch: &Watch<'_>, is_done: impl Fn() -> Result<bool, CudaError>) -> Result<(), Halt> {
    let start = Instant::now();
    let mut looks = 0u32;
    while !is_done()? {
        if (watch.failed)() {
            return Err(Halt::WorldFailed);
        }
        if watch.limit.is_some_and(|limit| start.elapsed() > limit) {
            return Err(Halt::TimeLimit);
        }
        match looks {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => thread::yield_now(),
            YIELDS.. => thread::sleep(SLEEP),
        }
        looks = looks.saturating_add(1);
    }
    Ok(())
}

/// Waits for something short that nothing else can hold up, such as a copy on an idle stream.
pub(super) fn settle(is_done: impl Fn() -> Result<bool, CudaError>) -> Result<(), CudaError> {
    while !is_done()? {
        std::hint::spin_loop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn ends_when_done_when_failed_and_in_time() {
        let looks = Cell::new(0);
        let third = || {
            looks.set(looks.get() + 1);
            Ok(looks.get() > 1500)
        };
        let limit = Some(Duration::from_secs(10));
        assert!(matches!(
            poll(
                &Watch {
                    failed: &|| false,
                    limit
                },
                third
            ),
            Ok(())
        ));
        assert!(matches!(
            poll(
                &Watch {
                    failed: &|| true,
                    limit
                },
                || Ok(false)
            ),
            Err(Halt::WorldFailed)
        ));
        let short = Watch {
            failed: &|| false,
            limit: Some(Duration::from_millis(5)),
        };
        assert!(matches!(poll(&short, || Ok(false)), Err(Halt::TimeLimit)));
        assert!(matches!(poll(&short, || Err(CudaError::NoDevice)), Err(Halt::Error(_))));
    }
}
