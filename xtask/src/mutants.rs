//! `cargo xtask mutants`: leaves each call that orders out of the shipped kernels, in turn, and asks whether the simulator
//! notices.

use crate::command::{cargo, output, root, run, target};
use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seeds of an unchanged program in which its calls are looked for: each number of PEs once.
const LOOKS: u64 = 4;
/// Of a hundred calls left out, so many are reported at least.
const WANTED: usize = 95;
/// What a program may take, with all its seeds, before it counts as one that does not end.
const PATIENCE: Duration = Duration::from_mins(1);

/// A call of a kernel: the parts that it is made of, and the programs that pass it.
#[derive(Default)]
struct Site {
    parts: BTreeSet<String>,
    programs: Vec<String>,
}

impl Site {
    /// The call, where it is one of those that are left out.
    fn kind(&self) -> Option<&'static str> {
        let has = |part| self.parts.contains(part);
        match () {
            () if has("put_signal") => Some("put_signal"),
            // What orders is a part of it: iput, iget.
            () if has("data") => None,
            () if has("signal") && has("wait") && has("quiet") => Some("barrier"),
            () if has("signal") && has("wait") => Some("sync of PEs"),
            () if has("signal") => Some("signal"),
            () if has("wait") => Some("wait"),
            () if has("quiet") => Some("quiet"),
            () if has("fence") => Some("fence"),
            () if has("flush") => Some("flush"),
            // More than a sync: a sum, a broadcast.
            () if has("value") => None,
            () => Some("tile sync"),
        }
    }
}

/// What a call left out comes to.
struct Outcome {
    /// Why the program is right without it.
    unneeded: Option<&'static str>,
    kind: &'static str,
    place: String,
    /// How it was reported, and by which program and seed.
    reported: Option<(String, String)>,
}

pub(crate) fn mutants(seeds: u64, only: Option<&str>, out: Option<&Path>) -> anyhow::Result<()> {
    run(cargo(&["build", "--release", "--package", "seeds"]).env("SHMEM_PTX", "off"))?;
    let binary = target().join("release/seeds");
    let sites = sites(&binary, only)?;
    let calls: Vec<_> = sites
        .iter()
        .filter_map(|(place, site)| Some((place, site, site.kind()?)))
        .collect();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            while let Some((place, site, kind)) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let reported = without(&binary, place, site, seeds)?;
                let outcome = Outcome {
                    unneeded: unneeded(place)?,
                    kind,
                    place: (*place).clone(),
                    reported,
                };
                eprintln!("{}", line(&outcome));
                outcomes.lock().unwrap().insert((*place).clone(), outcome);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker"))
    })?;
    let (text, good) = table(&outcomes.into_inner().unwrap(), seeds);
    print!("{text}");
    if let Some(out) = out {
        std::fs::write(out, &text).with_context(|| format!("could not write {}", out.display()))?;
    }
    ensure!(good, "fewer than {WANTED} of 100 calls left out are reported");
    Ok(())
}

/// The calls that the programs pass, by place.
fn sites(binary: &Path, only: Option<&str>) -> anyhow::Result<BTreeMap<String, Site>> {
    let programs = output(Command::new(binary).arg("--list"))?;
    let mut sites = BTreeMap::<String, Site>::new();
    let file: PathBuf = std::env::temp_dir().join(format!("shmem-sites-{}", std::process::id()));
    for program in programs
        .lines()
        .filter(|name| only.is_none_or(|only| name.contains(only)))
    {
        let _ = std::fs::remove_file(&file);
        output(
            Command::new(binary)
                .args([program, "--seeds", &LOOKS.to_string()])
                .env("SHMEM_SIM_SITES", &file),
        )?;
        let passed = std::fs::read_to_string(&file).unwrap_or_default();
        for passed in passed.lines() {
            let Some((part, place)) = passed.split_once(' ') else {
                bail!("{}: `{passed}` is no call and place", file.display());
            };
            // What the library or a dependency calls by itself is no kernel's.
            if place.starts_with('/') || place.starts_with("shmem-intrinsics/") || place.starts_with("tests/seeds/") {
                continue;
            }
            let site = sites.entry(place.to_owned()).or_default();
            site.parts.insert(part.to_owned());
            if site.programs.last().is_none_or(|last| last != program) {
                site.programs.push(program.to_owned());
            }
        }
    }
    let _ = std::fs::remove_file(&file);
    Ok(sites)
}

/// Runs the programs that pass the call without it, until one fails.
fn without(binary: &Path, place: &str, site: &Site, seeds: u64) -> anyhow::Result<Option<(String, String)>> {
    for program in &site.programs {
        let mut child = Command::new(binary)
            .args([program, "--jobs", "1", "--seeds", &seeds.to_string()])
            .env("SHMEM_SIM_SKIP", place)
            .env("SHMEM_TIMEOUT", "5")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let began = Instant::now();
        let ended = loop {
            if child.try_wait()?.is_some() {
                break true;
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                break false;
            }
            thread::sleep(Duration::from_millis(2));
        };
        let out = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&out.stdout);
        if !ended {
            return Ok(Some(("does not end".to_owned(), program.clone())));
        }
        if !out.status.success() {
            let (seed, what) = verdict(&said);
            return Ok(Some((what, format!("{program}, {seed}"))));
        }
    }
    Ok(None)
}

/// The seed, and the kind of bug or what else went wrong.
fn verdict(said: &str) -> (String, String) {
    let Some((seed, error)) = said.split_once(": seed ").and_then(|(_, rest)| rest.split_once(": ")) else {
        return ("no seed".to_owned(), "the process died".to_owned());
    };
    let error = error
        .strip_prefix("PE ")
        .map_or(error, |e| e.split_once(": ").map_or(e, |(_, e)| e));
    let head = error.split_once(':').map_or(error, |(head, _)| head);
    let is_kind = |c: char| c.is_ascii_lowercase() || c == '-';
    let what = if head.contains("deadlock") {
        "deadlock"
    } else if head.contains("time limit") {
        "time limit"
    } else if head.contains('-') && head.chars().all(is_kind) || head == "unordered" || head == "uninitialised" {
        head
    } else {
        "wrong result"
    };
    (format!("seed {seed}"), what.to_owned())
}

/// Why a program is right without a call, for those that are: lines `file#function | what the line holds | reason`.
const UNNEEDED: &str = include_str!("../unneeded.txt");

fn unneeded(place: &str) -> anyhow::Result<Option<&'static str>> {
    let mut parts = place.split(':');
    let (Some(file), Some(line)) = (parts.next(), parts.next()) else {
        bail!("`{place}` is no place");
    };
    let source = std::fs::read_to_string(root().join(file)).with_context(|| format!("could not read {file}"))?;
    let above: Vec<_> = source.lines().take(line.parse()?).collect();
    let text = above.last().copied().unwrap_or_default();
    // The function that the line is in, by its head.
    let heads = above.iter().rev().filter_map(|line| line.split_once("fn "));
    let name = |(_, rest): (&str, &'_ str)| rest.split(['(', '<']).next().unwrap_or_default().to_owned();
    let of = format!("{file}#{}", heads.map(name).next().unwrap_or_default());
    let entries = UNNEEDED.lines().filter_map(|entry| {
        let mut fields = entry.split(" | ");
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    Ok(entries
        .filter(|(within, holds, _)| *within == of && text.contains(holds))
        .map(|(.., reason)| reason)
        .next())
}

fn line(outcome: &Outcome) -> String {
    let Outcome { kind, place, .. } = outcome;
    match (&outcome.reported, outcome.unneeded) {
        (Some((how, by)), _) => format!("{kind:<12} {place:<48} {how:<18} {by}"),
        (None, Some(reason)) => format!("{kind:<12} {place:<48} unneeded: {reason}"),
        (None, None) => format!("{kind:<12} {place:<48} SURVIVES"),
    }
}

fn table(outcomes: &BTreeMap<String, Outcome>, seeds: u64) -> (String, bool) {
    let mut text = String::new();
    // Reported, surviving, unneeded.
    let mut sums = BTreeMap::<&str, [usize; 3]>::new();
    for outcome in outcomes.values() {
        let _ = writeln!(text, "{}", line(outcome));
        let column = match (&outcome.reported, outcome.unneeded) {
            (Some(_), _) => 0,
            (None, None) => 1,
            (None, Some(_)) => 2,
        };
        sums.entry(outcome.kind).or_default()[column] += 1;
        sums.entry("all").or_default()[column] += 1;
    }
    let _ = writeln!(text, "\nwith {seeds} seeds each; {} calls:", outcomes.len());
    for (kind, [reported, survive, unneeded]) in &sums {
        let _ = writeln!(
            text,
            "{kind:<12} {reported:>4} of {:>4} needed are reported, {:5.1} %; {unneeded:>3} unneeded",
            reported + survive,
            100.0 * *reported as f64 / (reported + survive).max(1) as f64
        );
    }
    let [reported, survive, _] = sums.get("all").copied().unwrap_or_default();
    let all = reported + survive;
    (text, reported * 100 >= all * WANTED)
}
