//! How the clocks of several devices compare: each is asked for its time many times.

use crate::backend::cuda::driver::{Address, Name, out};
use crate::backend::cuda::error::CudaError;
use crate::backend::cuda::gpu::Gpu;
use crate::backend::cuda::poll::settle;
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

const PTX: &str = concat!(include_str!("clock.ptx"), "\0");
const ROUNDS: u32 = 512;
/// The kernel gives up after a second.
const PATIENCE: Duration = Duration::from_secs(2);
const FLAGS: u32 = cudarc::driver::sys::CU_MEMHOSTALLOC_PORTABLE | cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// What is added to a device's time to get the host's, and how far off that may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offset {
    pub(super) ns: i64,
    pub(super) uncertain_ns: u64,
}

#[repr(C, align(128))]
struct Page {
    asked: u32,
    _apart: [u32; 15],
    answered: u32,
    _pad: u32,
    time: u64,
}

/// One question: the host's time before and after it, and the device's answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    before: i64,
    after: i64,
    device: i64,
}

impl Offset {
    /// The device read its clock between the two looks of the host.
    fn of(answers: &[Answer]) -> Self {
        let least = answers.iter().map(|a| a.before - a.device).max().unwrap_or(0);
        let most = answers.iter().map(|a| a.after - a.device).min().unwrap_or(0);
        // A clock of coarse steps is behind by up to one.
        let mut steps: Vec<i64> = answers.windows(2).map(|two| two[1].device - two[0].device).collect();
        steps.retain(|step| *step > 0);
        let step = steps.into_iter().min().unwrap_or(0).unsigned_abs();
        Self {
            ns: i64::midpoint(least, most),
            uncertain_ns: most.abs_diff(least) / 2 + step.min(1024),
        }
    }
}

/// By device. No kernel runs yet.
pub(super) fn compare(gpus: &[Gpu]) -> Result<Vec<Offset>, CudaError> {
    let start = Instant::now();
    gpus.iter().map(|gpu| ask(gpu, start)).collect()
}

fn ask(gpu: &Gpu, start: Instant) -> Result<Offset, CudaError> {
    let (driver, _current) = (gpu.driver, gpu.enter()?);
    let mut host: *mut c_void = ptr::null_mut();
    let (mut module, mut function, mut device) = (ptr::null_mut(), ptr::null_mut(), Address(0));
    // SAFETY: a context is current; all that is made here is freed below. The text ends with a zero.
    unsafe {
        driver.cuMemHostAlloc(out(&mut host), size_of::<Page>(), FLAGS)?;
        driver.cuMemHostGetDevicePointer_v2(out(&mut device), host, 0)?;
        host.cast::<Page>().write_bytes(0, 1);
        driver.cuModuleLoadDataEx(
            out(&mut module),
            PTX.as_ptr().cast(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )?;
        driver.cuModuleGetFunction(out(&mut function), module, Name::new(c"clock"))?;
    }
    let mut rounds = ROUNDS;
    let mut params: [*mut c_void; 2] = [(&raw mut device).cast(), (&raw mut rounds).cast()];
    // SAFETY: the entry has these two parameters.
    unsafe {
        let none = ptr::null_mut();
        driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, gpu.control, params.as_mut_ptr(), none)?;
    }
    let answers = question(host.cast(), start);
    // SAFETY: the stream is live; the kernel ends by itself, and then nothing uses what is freed.
    unsafe {
        settle(|| driver.stream_is_idle(gpu.control))?;
        driver.cuModuleUnload(module)?;
        driver.cuMemFreeHost(host)?;
    }
    Ok(Offset::of(&answers))
}

/// Ends early where no answer comes.
fn question(page: *mut Page, start: Instant) -> Vec<Answer> {
    let now = || start.elapsed().as_nanos() as i64;
    let (mut answers, since) = (Vec::new(), Instant::now());
    for round in 1..=ROUNDS {
        let before = now();
        // SAFETY: the page is live; the kernel shares it, so accesses are volatile, and fences order them.
        unsafe {
            (&raw mut (*page).asked).write_volatile(round);
            while (&raw const (*page).answered).read_volatile() < round {
                if since.elapsed() > PATIENCE {
                    return answers;
                }
                std::hint::spin_loop();
            }
            let after = now();
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            let device = (&raw const (*page).time).read_volatile() as i64;
            answers.push(Answer { before, after, device });
        }
    }
    // The first ones wait for the launch.
    answers.split_off(answers.len() / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_found_within_what_they_say() {
        for step in [1, 32, 1024] {
            let truth = -123_456_789;
            let answers: Vec<Answer> = (0..500i64)
                .map(|i| {
                    let before = 1000 + i * 2300;
                    // Somewhere between the looks, in steps.
                    let device = (before + 400 + i * 37 % 700 - truth) / step * step;
                    let after = before + 1500 + i * 13 % 90;
                    Answer { before, after, device }
                })
                .collect();
            let found = Offset::of(&answers);
            assert!(found.ns.abs_diff(truth) <= found.uncertain_ns, "{found:?}");
            assert!(found.uncertain_ns < 3000, "{found:?}");
        }
        assert_eq!(Offset::of(&[]), Offset::default());
    }
}
