//! Turns a lane's stack overflow into a failure of its world, where the stack has a guard page.
//!
//! The overflow is an access to the guard page, a SIGSEGV. The handler sends the lane straight to its end: its values are
//! not dropped, which a lane without stack could not do anyway. All other faults go to whoever handled them before.
//!
//! A lane that is sent to its end inside malloc keeps malloc's lock, and the thread hangs when it next allocates. So a call of
//! the lane's begins only where its stack has room for it ([`Lane::overflows`](crate::lane::Lane::overflows)): what faults
//! here is the kernel's own code, which does not allocate if it is one for GPUs.

use crate::config::SimError;
use crate::lane::Exit;
use crate::memory::Mapping;
use crate::stack::LaneStack;
use corosensei::trap::{CoroutineTrapHandler, TrapHandlerRegs};
use libc::{
    SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGSEGV, SS_DISABLE, c_int, c_void, siginfo_t, stack_t, ucontext_t,
};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

#[derive(Clone, Copy)]
struct Running {
    stack: LaneStack,
    trap: CoroutineTrapHandler<Exit>,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// What was in place before; written before the handler is.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Says which lane is about to run on this thread.
pub(crate) fn running(stack: LaneStack, trap: CoroutineTrapHandler<Exit>) {
    RUNNING.set(Some(Running { stack, trap }));
}

/// Says that no lane runs on this thread.
pub(crate) fn idle() {
    RUNNING.set(None);
}

/// Makes overflows on this thread failures, as long as it lives.
pub(crate) struct Watch {
    /// The handler's own stack: the lane's has just run out. None where the thread had one already.
    alternate: Option<Mapping>,
}

impl Watch {
    pub(crate) fn new() -> Result<Self, SimError> {
        install_handler();
        let mut current = MaybeUninit::<stack_t>::uninit();
        // SAFETY: only asks; the system fills the struct.
        let current = unsafe {
            libc::sigaltstack(ptr::null(), current.as_mut_ptr());
            current.assume_init()
        };
        if current.ss_flags & SS_DISABLE == 0 {
            return Ok(Self { alternate: None });
        }
        let bytes = 64 << 10;
        let map = Mapping::new(bytes, "a signal stack")?;
        let stack = stack_t {
            ss_sp: map.start().cast(),
            ss_flags: 0,
            ss_size: bytes,
        };
        // SAFETY: the mapping stays until `drop` has taken the stack out of use.
        unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
        Ok(Self { alternate: Some(map) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.alternate.is_some() {
            let none = stack_t {
                ss_sp: ptr::null_mut(),
                ss_flags: SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: takes the stack out of use on the thread that put it in; no handler runs here now.
            unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
        }
    }
}

fn install_handler() {
    PREVIOUS.get_or_init(|| {
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_fault;
        let mut previous = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a zeroed sigaction is valid; the handler has the signature that SA_SIGINFO asks for. Until PREVIOUS is
        // set no lane runs on this thread, and other threads' faults wait in `get` for at most these lines.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK;
            libc::sigaction(SIGSEGV, &raw const action, previous.as_mut_ptr());
            previous.assume_init()
        }
    });
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a filled siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    match RUNNING.get().filter(|r| r.stack.guard_holds(address)) {
        Some(lane) => {
            // SAFETY: the lane runs on this thread, faulted on its own stack, and is alive. What it leaves half done is
            // its world's state, which has failed with this; the registers are set as asked.
            unsafe {
                let registers = lane.trap.setup_trap_handler(|| Exit::Overflowed);
                redirect(&mut *context.cast(), registers);
            }
        }
        None => pass_on(signal, info, context),
    }
}

fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    match previous.sa_sigaction {
        // SAFETY: puts back what was there; the access faults again and meets it.
        SIG_DFL | SIG_IGN => unsafe {
            libc::sigaction(SIGSEGV, previous, ptr::null_mut());
        },
        // SAFETY: a handler with SA_SIGINFO has this signature.
        handler if previous.sa_flags & SA_SIGINFO != 0 => unsafe {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        },
        // SAFETY: one without has this.
        handler => unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        },
    }
}

#[cfg(target_arch = "x86_64")]
fn redirect(context: &mut ucontext_t, registers: TrapHandlerRegs) {
    let TrapHandlerRegs {
        rip,
        rsp,
        rbp,
        rdi,
        rsi,
    } = registers;
    let to = &mut context.uc_mcontext.gregs;
    for (register, value) in [
        (libc::REG_RIP, rip),
        (libc::REG_RSP, rsp),
        (libc::REG_RBP, rbp),
        (libc::REG_RDI, rdi),
        (libc::REG_RSI, rsi),
    ] {
        to[register as usize] = value as i64;
    }
}

#[cfg(target_arch = "aarch64")]
fn redirect(context: &mut ucontext_t, registers: TrapHandlerRegs) {
    let TrapHandlerRegs {
        pc,
        sp,
        x0,
        x1,
        x29,
        lr,
    } = registers;
    let to = &mut context.uc_mcontext;
    (to.pc, to.sp) = (pc, sp);
    for (register, value) in [(0, x0), (1, x1), (29, x29), (30, lr)] {
        to.regs[register] = value;
    }
}
