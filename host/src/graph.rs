//! Work of a stream, recorded once and replayed often: a CUDA graph.

use crate::backend::{GraphId, StreamId};
use crate::launch::LaunchError;
use crate::session::Session;
use crate::{Error, Stream};
use shmem::Region;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// A capture or a graph that was refused. The World stays usable.
///
/// ```
/// use shmem_host::{Backend, Error, GraphError, World};
///
/// World::builder().pes(1).backend(Backend::Sim).build()?.run(|pe| {
///     let refused = pe.stream().capture(|| pe.stream().synchronize());
///     assert!(matches!(refused, Err(Error::Graph(GraphError::InCapture { call: "a wait for the stream", .. }))));
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A call that no graph can hold.
    #[error(
        "PE {pe}: {call} inside Stream::capture: nothing runs there, and a graph holds launches and operations on the stream \
         only; do it before or after"
    )]
    InCapture {
        /// Who called.
        pe: u32,
        /// What was called.
        call: &'static str,
    },
    /// A graph that may still run, on another stream.
    #[error(
        "PE {pe}: a graph was launched on stream {stream} while it may still run on stream {busy}: synchronize that one \
         first, launch on it again, or capture another graph"
    )]
    Busy {
        /// Who called.
        pe: u32,
        /// The stream, as the PE numbers them.
        stream: usize,
        /// Where it was launched before.
        busy: usize,
    },
    /// A stream of another World.
    #[error("PE {pe}: a graph was launched on a stream of another PE or World: launch it where it was captured")]
    OtherWorld {
        /// Who captured it.
        pe: u32,
    },
}

/// Kernels and operations of a stream in order, from [`Stream::capture`]. Launching it costs about as much as one kernel.
///
/// It may be launched any number of times, one after the other: on another stream only once the stream of its last launch has
/// been synchronized. Buffers that it names must live at each launch. Arguments are those of the capture. Dropping it waits
/// for nothing.
///
/// CUDA `cuGraphLaunch`.
pub struct Graph {
    session: Rc<Session>,
    id: GraphId,
    recorded: Recorded,
    /// Where it was launched last, and how often that stream had been drained before.
    last: Cell<Option<(StreamId, u64)>>,
}

/// What a capture holds.
pub(crate) struct Recorded {
    /// The stream that it is of.
    from: StreamId,
    /// A stream that nothing else uses. Kernels of the graph have its slot, so that it may run beside any stream.
    own: StreamId,
    /// Kernels with the memory that they name, each once.
    parts: Vec<(Cow<'static, str>, Region)>,
    /// Kernels, each once.
    kernels: Vec<Cow<'static, str>>,
    launches: u32,
}

impl Stream {
    /// Records what `work` enqueues on this stream as a [`Graph`]; none of it runs. Other streams go on as usual.
    ///
    /// Everything that takes a stream can be recorded: launches, collective ones too, operations such as
    /// [`put`](Self::put), barriers. What a graph can't hold is refused inside: waits and reads, allocations, another capture.
    /// Where kernels or barriers are collective, every PE records the same, and launches the graphs in the same order.
    ///
    /// CUDA `cuStreamBeginCapture`, `cuGraphInstantiate`.
    ///
    /// ```
    /// use shmem::prelude::*;
    /// use shmem_host::{Backend, World, launch};
    ///
    /// #[kernel]
    /// pub fn add(x: Global<u32>, y: SymSlice<u32>) {
    ///     x.store(thread::index(), x.load(thread::index()) + y.load(thread::index()));
    /// }
    ///
    /// World::builder().pes(2).backend(Backend::Sim).build()?.run(|pe| {
    ///     let (sum, inbox, stream) = (pe.buffer::<u32>(8)?, pe.alloc::<u32>(8)?, pe.stream());
    ///     sum.write(&[1; 8])?;
    ///     let step = stream.capture(|| {
    ///         stream.put(&inbox, &sum, 1 - pe.id())?;
    ///         stream.barrier_all()?;
    ///         launch!(pe, add<<<1, 8>>>(&sum, &inbox))?;
    ///         stream.barrier_all()
    ///     })?;
    ///     for _ in 0..5 {
    ///         step.launch(stream)?;
    ///     }
    ///     assert_eq!(sum.to_vec()?, [32; 8]);
    ///     Ok::<(), shmem_host::Error>(())
    /// })?;
    /// # Ok::<(), shmem_host::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`, which leave nothing recorded; [`CudaError`](crate::CudaError) from the driver.
    pub fn capture<E: From<Error>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let session = self.session();
        let capture = Capture::begin(session, self.id())?;
        work()?;
        Ok(capture.end()?)
    }
}

/// A capture under way. Dropping it forgets what was recorded.
struct Capture<'a> {
    session: &'a Rc<Session>,
}

impl<'a> Capture<'a> {
    fn begin(session: &'a Rc<Session>, from: StreamId) -> Result<Self, Error> {
        session.refuse_in_capture("another capture")?;
        let own = session.new_stream()?;
        if let Err(error) = session.device.begin_capture(own) {
            session.drop_stream(own);
            return Err(error);
        }
        *session.capture.borrow_mut() = Some(Recorded {
            from,
            own,
            parts: vec![],
            kernels: vec![],
            launches: 0,
        });
        Ok(Self { session })
    }

    fn end(self) -> Result<Graph, Error> {
        let (id, recorded) = self.finish();
        Ok(Graph {
            session: self.session.clone(),
            id: id.inspect_err(|_| self.session.drop_stream(recorded.own))?,
            recorded,
            last: Cell::new(None),
        })
    }

    fn finish(&self) -> (Result<GraphId, Error>, Recorded) {
        let recorded = self
            .session
            .capture
            .take()
            .expect("`begin` made one, and `self` ends it once");
        (self.session.device.end_capture(recorded.own), recorded)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.session.capture.borrow().is_some() {
            let (id, recorded) = self.finish();
            if let Ok(id) = id {
                self.session.device.drop_graph(id);
            }
            self.session.drop_stream(recorded.own);
        }
    }
}

impl Graph {
    /// Enqueues all of it on the stream; returns at once. Collective where it holds collective launches or barriers.
    ///
    /// # Errors
    /// [`LaunchError::StaleHandle`] where a buffer that it names has been dropped; [`GraphError`]. Nothing is enqueued then.
    /// Example at [`Stream::capture`].
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        let (session, id) = (&self.session, stream.id());
        if !Rc::ptr_eq(session, stream.session()) {
            return Err(GraphError::OtherWorld { pe: session.pe }.into());
        }
        session.check()?;
        session.refuse_in_capture("Graph::launch")?;
        if let Some((busy, drained)) = self.last.get()
            && busy != id
            && !session.has_drained(busy, drained)
        {
            let (pe, stream, busy) = (session.pe, id.0, busy.0);
            return Err(GraphError::Busy { pe, stream, busy }.into());
        }
        self.check_handles()?;
        session
            .device
            .launch_graph(self.id, id)
            .map_err(|e| if e.is_fatal() { session.fatal(e) } else { e })?;
        for kernel in &self.recorded.kernels {
            session.launched(id, kernel.clone());
        }
        session.launched_more(id, self.recorded.launches - self.recorded.kernels.len() as u32);
        self.last.set(Some((id, session.drained(id))));
        Ok(())
    }

    /// How many launches it holds, those of operations on the stream among them.
    pub fn launches(&self) -> u32 {
        self.recorded.launches
    }

    fn check_handles(&self) -> Result<(), LaunchError> {
        let handles = self.session.handles.borrow();
        for (kernel, region) in &self.recorded.parts {
            handles.check(*region).map_err(|why| LaunchError::StaleHandle {
                kernel: kernel.to_string(),
                pe: self.session.pe,
                region: *region,
                why,
            })?;
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.session.device.drop_graph(self.id);
        self.session.drop_stream_after(self.recorded.own, self.last.get());
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (launches, pe) = (self.recorded.launches, self.session.pe);
        write!(f, "a graph of {launches} launches of PE {pe}")
    }
}

impl Session {
    /// An error inside a capture, for calls that no graph can hold.
    pub(crate) fn refuse_in_capture(&self, call: &'static str) -> Result<(), GraphError> {
        match &*self.capture.borrow() {
            Some(_) => Err(GraphError::InCapture { pe: self.pe, call }),
            None => Ok(()),
        }
    }

    /// As [`refuse_in_capture`](Self::refuse_in_capture), where it is this stream that is recorded.
    pub(crate) fn refuse_wait_in_capture(&self, stream: StreamId) -> Result<(), GraphError> {
        match &*self.capture.borrow() {
            Some(capture) if capture.from == stream => Err(GraphError::InCapture {
                pe: self.pe,
                call: "a wait for the stream",
            }),
            _ => Ok(()),
        }
    }

    /// Where launches on this stream go: while it is recorded, to the graph's own.
    pub(crate) fn target(&self, stream: StreamId) -> StreamId {
        match &*self.capture.borrow() {
            Some(capture) if capture.from == stream => capture.own,
            _ => stream,
        }
    }

    /// Keeps what a launch on this stream has named, where it is recorded.
    pub(crate) fn record_regions(
        &self,
        stream: StreamId,
        kernel: &'static str,
        regions: impl FnOnce(&mut dyn FnMut(Region)),
    ) {
        if let Some(capture) = &mut *self.capture.borrow_mut()
            && capture.from == stream
        {
            regions(&mut |region| {
                if !capture.parts.iter().any(|(_, known)| *known == region) {
                    capture.parts.push((Cow::Borrowed(kernel), region));
                }
            });
        }
    }

    /// Counts a launch that was recorded.
    pub(crate) fn recorded(&self, kernel: Cow<'static, str>) {
        if let Some(capture) = &mut *self.capture.borrow_mut() {
            capture.launches += 1;
            if !capture.kernels.contains(&kernel) {
                capture.kernels.push(kernel);
            }
        }
    }
}
