//! Graphs: what can't be recorded, what is refused at a launch, and what a failed capture leaves.

mod common;

use common::{promptly, run};
use shmem::prelude::*;
use shmem_host::{Error, GraphError, LaunchConfig, LaunchError, Pe, Stale, collective_launch, launch};

#[kernel]
fn add(x: Global<u32>, n: u32) {
    x.store(0, x.load(0) + n);
}

#[kernel(collective)]
fn meet(all: Collective, x: Global<u32>) {
    all.grid().sync();
    if Block.id() == 0 && Block.leader() {
        x.store(0, x.load(0) + 1);
    }
    all.grid().sync();
}

#[kernel]
fn store_at(data: SymSlice<u32>, i: u32) {
    data.store(i, 1);
}

fn refuses(pe: &Pe, call: &str, work: impl FnOnce() -> Result<(), Error>) {
    let refused = pe.stream().capture(work);
    let Err(Error::Graph(GraphError::InCapture { call: name, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, call);
}

#[test]
fn what_no_graph_can_hold_is_refused() -> Result<(), Error> {
    run(2, |pe| {
        let (data, stream) = (pe.buffer::<u32>(1)?, pe.stream());
        let empty = stream.capture(|| Ok::<(), Error>(()))?;
        refuses(&pe, "a wait for the stream", || stream.synchronize());
        refuses(&pe, "a wait for the stream", || data.read(0).map(drop));
        refuses(&pe, "a wait for the stream", || data.write(&[1]));
        refuses(&pe, "an allocation", || pe.alloc::<u32>(1).map(drop));
        refuses(&pe, "an allocation", || pe.signals(1).map(drop));
        refuses(&pe, "an allocation", || pe.buffer::<u32>(1).map(drop));
        refuses(&pe, "Pe::barrier_all", || pe.barrier_all());
        refuses(&pe, "Stream::timed", || stream.timed(|| Ok::<(), Error>(())).map(drop));
        refuses(&pe, "another capture", || {
            stream.capture(|| Ok::<(), Error>(())).map(drop)
        });
        refuses(&pe, "Graph::launch", || empty.launch(stream));
        // Nothing is left of them.
        assert_eq!(empty.launches(), 0);
        empty.launch(stream)?;
        data.write(&[3])?;
        assert_eq!(data.read(0)?, 3);
        pe.barrier_all()
    })
}

#[test]
fn other_streams_go_on_beside_a_capture() -> Result<(), Error> {
    run(1, |pe| {
        let (x, y) = (pe.buffer::<u32>(1)?, pe.buffer::<u32>(1)?);
        let side = pe.new_stream()?;
        let graph = side.capture(|| {
            launch!(pe, add<<<1, 1, 0, &side>>>(&x, 5))?;
            launch!(pe, add<<<1, 1>>>(&y, 1))?;
            assert_eq!(y.read(0)?, 1);
            Ok::<(), Error>(())
        })?;
        assert_eq!((graph.launches(), x.read(0)?), (1, 0));
        for _ in 0..3 {
            graph.launch(&side)?;
        }
        side.synchronize()?;
        assert_eq!((x.read(0)?, y.read(0)?), (15, 1));
        Ok(())
    })
}

#[test]
fn a_dropped_buffer_is_refused_at_the_launch() -> Result<(), Error> {
    run(2, |pe| {
        let (x, data, ready) = (pe.buffer::<u32>(1)?, pe.alloc::<u32>(8)?, pe.signals(1)?);
        let stream = pe.stream();
        let graph = stream.capture(|| {
            launch!(pe, add<<<1, 1>>>(&x, 1))?;
            stream.put(data.part(..4)?, data.part(4..)?, 0)?;
            stream.signal_op(ready.at(0)?.set(1), pe.id())
        })?;
        let stale = |kernel: &str| {
            let refused = graph.launch(stream);
            let Err(Error::Launch(LaunchError::StaleHandle { kernel: name, why, .. })) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((name.as_str(), why), (kernel, Stale::Dropped));
        };
        graph.launch(stream)?;
        pe.barrier_all()?;
        drop(ready);
        stale("signal_op");
        drop(data);
        stale("put");
        assert_eq!(x.read(0)?, 1, "nothing of a refused graph runs");
        pe.barrier_all()
    })
}

#[test]
fn a_graph_runs_on_one_stream_at_a_time() -> Result<(), Error> {
    run(2, |pe| {
        let x = pe.buffer::<u32>(1)?;
        let (stream, side) = (pe.stream(), pe.new_stream()?);
        let graph = stream.capture(|| collective_launch!(pe, meet<<<4, 32>>>(&x)))?;
        graph.launch(&side)?;
        graph.launch(&side)?;
        let refused = graph.launch(stream);
        assert!(
            matches!(refused, Err(Error::Graph(GraphError::Busy { stream: 0, busy: 1, .. }))),
            "{refused:?}"
        );
        side.synchronize()?;
        graph.launch(stream)?;
        assert_eq!(x.read(0)?, 3);
        graph.launch(&side)?;
        drop(graph);
        // Its slot is not given to another stream while it may run.
        let more = [pe.new_stream()?, pe.new_stream()?];
        for stream in &more {
            let other = pe.buffer::<u32>(1)?;
            pe.launch(LaunchConfig::new(4, 32).stream(stream).collective(), meet(&other))?;
            stream.synchronize()?;
        }
        side.synchronize()?;
        assert_eq!(x.read(0)?, 4);
        pe.barrier_all()
    })
}

#[test]
fn streams_of_graphs_are_used_again() -> Result<(), Error> {
    run(1, |pe| {
        let x = pe.buffer::<u32>(1)?;
        for _ in 0..200 {
            // More than there are slots for collective launches.
            let graph = pe.stream().capture(|| collective_launch!(pe, meet<<<1, 1>>>(&x)))?;
            graph.launch(pe.stream())?;
            pe.stream().synchronize()?;
        }
        assert_eq!(x.read(0)?, 200);
        Ok(())
    })
}

#[test]
fn errors_and_panics_inside_leave_nothing_recorded() -> Result<(), Error> {
    run(1, |pe| {
        let x = pe.buffer::<u32>(1)?;
        let failed = pe.stream().capture(|| {
            launch!(pe, add<<<1, 1>>>(&x, 1))?;
            launch!(pe, add<<<0, 1>>>(&x, 1))
        });
        assert!(matches!(failed, Err(Error::Launch(LaunchError::Grid { .. }))));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = pe.stream().capture::<Error>(|| panic!("inside"));
        }));
        assert!(caught.is_err());
        launch!(pe, add<<<1, 1>>>(&x, 7))?;
        assert_eq!(x.read(0)?, 7);
        Ok(())
    })
}

#[test]
fn a_fault_inside_a_graph_comes_back() {
    let result = promptly(|| {
        run(2, |pe| {
            let data = pe.alloc::<u32>(4)?;
            let graph = pe.stream().capture(|| launch!(pe, store_at<<<1, 1>>>(&data, 4)))?;
            if pe.id() == 1 {
                graph.launch(pe.stream())?;
            }
            pe.barrier_all()
        })
    });
    let Err(Error::Device(fault)) = result else {
        panic!("{result:?}")
    };
    assert_eq!((fault.pe, fault.kernel.as_str()), (1, "store_at"));
}
