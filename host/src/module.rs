//! Hand-made PTX: loaded and launched by name, without types.

use crate::backend::ModuleId;
use crate::images::{entries, find_entry};
use crate::launch::Ready;
use crate::session::Session;
use crate::{Error, LaunchConfig};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

/// PTX that was loaded from text: `pe.load_ptx`.
///
/// ```no_run
/// use shmem_host::{LaunchConfig, World};
///
/// World::from_env()?.run(|pe| {
///     let module = pe.load_ptx(&std::fs::read_to_string("out.ptx").expect("run the device package's build first"))?;
///     let numbers = pe.alloc::<i32>(1)?;
///     let mut dst = numbers.handle();
///     let config = LaunchConfig::new(1, 1).collective();
///     // SAFETY: simple_shift takes one SymSlice<i32>, and `numbers` lives until the kernel has run.
///     unsafe { module.launch_raw("simple_shift", config, &mut [(&raw mut dst).cast()]) }?;
///     pe.stream().synchronize()
/// })?;
/// # Ok::<(), shmem_host::Error>(())
/// ```
pub struct Module {
    session: Rc<Session>,
    id: ModuleId,
    entries: Vec<String>,
    kernels: RefCell<HashMap<String, Rc<Ready>>>,
}

impl Module {
    pub(crate) fn load(session: Rc<Session>, ptx: &str) -> Result<Self, Error> {
        session.check()?;
        let id = session.device.load_ptx(ptx)?;
        let entries = entries(ptx).map(str::to_owned).collect();
        Ok(Self {
            session,
            id,
            entries,
            kernels: RefCell::default(),
        })
    }

    /// Launches the entry with this symbol, or the only one of a kernel with this name. `params` holds the address of each
    /// argument, in order.
    ///
    /// # Safety
    /// The addresses are those of values of the entry's parameter types, and handles among them are live. Nothing of that is
    /// checked.
    ///
    /// # Errors
    /// [`ImageError::NoSuchEntry`](crate::ImageError::NoSuchEntry); [`LaunchError`](crate::LaunchError) for the shape.
    pub unsafe fn launch_raw(
        &self,
        name: &str,
        config: LaunchConfig<'_>,
        params: &mut [*mut c_void],
    ) -> Result<(), Error> {
        self.session.check()?;
        let threads = self.session.check_shape(name, &config)?;
        let ready = self.ready(name)?;
        self.session.check_resources(name, &ready, threads, &config)?;
        // What a collective kernel's entry takes behind its arguments; where an entry takes less, nobody looks.
        let mut slot = self.session.target(config.stream_id()).slot();
        let mut params: Vec<_> = params.iter().copied().chain([(&raw mut slot).cast()]).collect();
        self.session
            .enqueue(Cow::Owned(name.to_owned()), &ready, &config, &mut params, None)
    }

    fn ready(&self, name: &str) -> Result<Rc<Ready>, Error> {
        if let Some(ready) = self.kernels.borrow().get(name) {
            return Ok(ready.clone());
        }
        let ready = Rc::new(Ready::new(
            self.session
                .device
                .load_from(self.id, find_entry(&self.entries, name)?)?,
        ));
        self.kernels.borrow_mut().insert(name.to_owned(), ready.clone());
        Ok(ready)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module {} of PE {}", self.id.0, self.session.pe)
    }
}
