//! Timelines: files that viewers take, with slices that nest and arrows that lead from issue to landing.

use serde_json::Value;
use shmem::prelude::*;
use shmem_sim::{Config, Engine, KernelJob, Path, Sim, StreamId, counters, explore, signals, symmetric};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A file name of its own.
fn file(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let _ = std::fs::remove_file(&file);
    file
}

fn read(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut whole: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(events) = whole["traceEvents"].take() else {
        panic!("no events in {text}")
    };
    events
}

/// A time in nanoseconds: the file has microseconds.
fn ns(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as u64
}

fn track(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

fn kind<'a>(events: &'a [Value], ph: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == ph).collect()
}

/// Names of slices, with how often each is there.
fn names(events: &[Value]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for slice in kind(events, "X") {
        *names.entry(slice["name"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    names
}

/// Slices of a track lie side by side or inside each other; arrows come in pairs, begin and end inside slices, and lead
/// forward in time; whatever is on a track belongs to one that has a name.
fn check(events: &[Value]) {
    let mut tracks: HashMap<(u64, u64), Vec<(u64, u64)>> = HashMap::new();
    for slice in kind(events, "X") {
        let begin = ns(slice, "ts");
        let end = begin + ns(slice, "dur");
        assert!(begin < end, "{slice}");
        tracks.entry(track(slice)).or_default().push((begin, end));
    }
    for slices in tracks.values_mut() {
        slices.sort_by_key(|&(begin, end)| (begin, u64::MAX - end));
        let mut open: Vec<(u64, u64)> = Vec::new();
        for &(begin, end) in slices.iter() {
            open.retain(|&(_, e)| e > begin);
            if let Some(&(b, e)) = open.last() {
                assert!(b < begin && end < e, "{begin}..{end} is not inside {b}..{e}");
            }
            open.push((begin, end));
        }
    }
    let inside = |event: &Value| {
        let at = ns(event, "ts");
        let slices = tracks.get(&track(event)).unwrap();
        assert!(slices.iter().any(|&(b, e)| b <= at && at < e), "{event} is in no slice");
        at
    };
    let starts: HashMap<u64, u64> = kind(events, "s")
        .into_iter()
        .map(|event| (event["id"].as_u64().unwrap(), inside(event)))
        .collect();
    let ends = kind(events, "f");
    assert_eq!(starts.len(), ends.len());
    for end in ends {
        assert!(starts[&end["id"].as_u64().unwrap()] < inside(end), "{end}");
    }
    let named: Vec<_> = kind(events, "M")
        .into_iter()
        .filter(|event| event["name"] == "thread_name")
        .map(track)
        .collect();
    assert!(tracks.keys().all(|track| named.contains(track)));
}

fn exchange() {
    let (data, ready, arrived) = (symmetric::<u64>(256), signals(1).at(0), counters(1).at(0));
    let peer = (shmem::my_pe() + 1) % shmem::n_pes();
    shared!(mine: [u64; 64]);
    mine.store(thread::index(), u64::from(thread::index()));
    Block.sync();
    let part = data.chunk(thread::block_idx_x(), 64);
    shmem::put_signal(Block, part, mine, arrived.add(1), peer);
    shmem::wait_until(Block, arrived, ge(2));
    if thread::index() < 2 {
        shmem::p(data.at(200 + thread::index()), 1, peer);
        shmem::fence(Thread);
        if thread::index() == 0 {
            shmem::signal_op(ready.set(1), peer);
            shmem::fetch_add(data.at(255), 1, peer);
            assert!(shmem::g(data.at(0), peer) == 0);
        }
        shmem::quiet(Thread);
    }
}

#[test]
fn slices_nest_and_arrows_pair_over_every_path_and_many_seeds() {
    for path in Path::ALL {
        for seed in 0..10 {
            let file = file(&format!("exchange-{path}-{seed}"));
            let sim = Sim::new(3).grid(2).block(64).path(path).seed(seed).check(false);
            sim.timeline(&file).run(exchange).unwrap();
            let events = read(&file);
            check(&events);
            let names = names(&events);
            // Three PEs of two blocks: each block's, and each PE's kernel.
            assert_eq!(names["run"], 3 * 2 + 3);
            assert_eq!(names["put_signal"], 3 * 2);
            // What adapters do is not shown, and what rings is.
            let carried = if path == Path::Ibgda { "doorbell" } else { "put" };
            for name in [
                carried,
                "wait",
                "p",
                "fence",
                "signal",
                "atomic",
                "g",
                "quiet",
                "sync of the block",
            ] {
                assert!(names.contains_key(name), "{name} is missing in {names:?}");
            }
            assert!(path == Path::Ibgda || !kind(&events, "s").is_empty());
        }
    }
}

#[test]
fn slices_tell_place_peer_and_size() {
    let file = file("one-put");
    let line = line!() + 4;
    let run = Sim::new(2).timeline(&file).run(|| {
        let data = symmetric::<u64>(4);
        if shmem::my_pe() == 0 {
            shmem::put(Thread, data.slice(0..2), &[7; 2], 1);
        }
    });
    run.unwrap();
    let events = read(&file);
    let slices = kind(&events, "X");
    let put = slices.iter().find(|slice| slice["cat"] == "operation").unwrap();
    assert_eq!((&put["name"], put["pid"].as_u64()), (&"put".into(), Some(1)));
    assert_eq!(
        (put["args"]["PE"].as_u64(), put["args"]["bytes"].as_u64()),
        (Some(1), Some(16))
    );
    assert!(
        put["args"]["at"]
            .as_str()
            .unwrap()
            .contains(&format!("timeline.rs:{line}")),
        "{put}"
    );
    let landed = slices.iter().find(|slice| slice["cat"] == "landing").unwrap();
    assert_eq!(
        (landed["pid"].as_u64(), landed["args"]["from PE"].as_u64()),
        (Some(2), Some(0))
    );
    assert_eq!(landed["args"]["bytes"].as_u64(), Some(16));
}

#[test]
fn a_world_that_fails_shows_how_far_it_came() {
    let file = file("deadlock");
    let failure = Sim::new(2).block(32).timeline(&file).run(|| {
        shmem::wait_until(Warp, signals(1).at(0), eq(1));
    });
    assert!(failure.is_err());
    let events = read(&file);
    check(&events);
    assert_eq!(names(&events)["wait"], 2);
}

#[test]
fn worlds_of_a_process_have_files_of_their_own() {
    let file = file("several");
    for _ in 0..2 {
        Sim::new(1).timeline(&file).run(|| {}).unwrap();
    }
    check(&read(&file));
    check(&read(&file.with_extension("2.json")));
}

#[test]
fn streams_of_a_host_have_tracks_of_their_own() {
    let file = file("streams");
    let mut config = Config::new(1);
    config.timeline = Some(file.clone());
    let engine = Engine::new(config).unwrap();
    let second = engine.stream(0);
    let job = |name| KernelJob {
        name,
        symbol: "",
        place: (file!(), line!()),
        grid: [2, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        collective: false,
        lane: Arc::new(|| Block.sync()),
    };
    engine.submit(0, StreamId(0), job("first")).unwrap();
    engine.submit(0, second, job("second")).unwrap();
    engine.submit(0, StreamId(0), job("third")).unwrap();
    engine.wait(0, StreamId(0)).unwrap();
    engine.wait(0, second).unwrap();
    drop(engine);
    let events = read(&file);
    check(&events);
    let names = names(&events);
    assert_eq!((names["first"], names["second"], names["third"]), (3, 3, 3));
}

#[test]
fn explore_shows_only_the_seed_that_fails() {
    let file = file("explored");
    let found = explore(&Sim::new(2).timeline(&file).check(false), 0..200, || {
        let (data, ready) = (symmetric::<u32>(1).at(0), signals(1).at(0));
        let peer = 1 - shmem::my_pe();
        shmem::p(data, 7, peer);
        shmem::signal_op(ready.set(1), peer);
        shmem::wait_until(Thread, ready, eq(1));
        assert_eq!(data.load(), 7);
    });
    assert!(found.is_err());
    check(&read(&file));
    assert!(!file.with_extension("2.json").exists());
}
