//! Files in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A trace file as it is put together: PEs are its processes, blocks and the like its threads. Times are nanoseconds.
///
/// ```
/// let mut trace = shmem_sim::Trace::default();
/// trace.process(0, "PE 0", "");
/// trace.thread((0, 1), "block 0");
/// trace.slice((0, 1), "put", "op", 1500, 2500, &[("bytes", 64u64.into())]);
/// assert!(trace.to_string().contains(r#""name":"put","cat":"op","ts":1.500,"dur":1.000,"args":{"bytes":64}"#));
/// ```
#[derive(Debug, Default)]
pub struct Trace {
    events: String,
}

/// How many traces of this process have asked for a name.
static FILES: Mutex<Option<HashMap<PathBuf, u32>>> = Mutex::new(None);

/// PE and number of a thread of a [`Trace`], counted from 1: viewers hide thread 0.
pub type TrackId = (u32, u32);

/// A value of an event's argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Arg {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => Quoted(text).fmt(f),
        }
    }
}

/// Text as JSON writes it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", c as u32)?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Nanoseconds as the microseconds of the format.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Trace {
    /// Viewers take process 0 for the idle one.
    fn event(&mut self, kind: char, (pe, thread): TrackId, name: &str, more: fmt::Arguments<'_>) {
        let comma = if self.events.is_empty() { "" } else { ",\n" };
        let _ = write!(
            self.events,
            "{comma}{{\"ph\":\"{kind}\",\"pid\":{},\"tid\":{thread},\"name\":{}{more}}}",
            pe + 1,
            Quoted(name)
        );
    }

    /// Names a PE, with a label beside the name.
    pub fn process(&mut self, pe: u32, name: &str, label: &str) {
        let name = Quoted(name);
        self.event(
            'M',
            (pe, 0),
            "process_name",
            format_args!(",\"args\":{{\"name\":{name}}}"),
        );
        self.event(
            'M',
            (pe, 0),
            "process_sort_index",
            format_args!(",\"args\":{{\"sort_index\":{pe}}}"),
        );
        if !label.is_empty() {
            let label = Quoted(label);
            self.event(
                'M',
                (pe, 0),
                "process_labels",
                format_args!(",\"args\":{{\"labels\":{label}}}"),
            );
        }
    }

    /// Names a thread. They are shown in the order of their numbers.
    pub fn thread(&mut self, at: TrackId, name: &str) {
        let (name, index) = (Quoted(name), at.1);
        self.event('M', at, "thread_name", format_args!(",\"args\":{{\"name\":{name}}}"));
        self.event(
            'M',
            at,
            "thread_sort_index",
            format_args!(",\"args\":{{\"sort_index\":{index}}}"),
        );
    }

    /// Something that lasts. Slices of one thread lie side by side or inside each other.
    pub fn slice(&mut self, at: TrackId, name: &str, category: &str, begin: u64, end: u64, args: &[(&str, Arg)]) {
        let mut text = String::new();
        for (key, value) in args {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{}:{value}", Quoted(key));
        }
        let (category, ts, dur) = (Quoted(category), Micros(begin), Micros(end - begin));
        let more = format_args!(",\"cat\":{category},\"ts\":{ts},\"dur\":{dur},\"args\":{{{text}}}");
        self.event('X', at, name, more);
    }

    /// An arrow from the innermost slice at one point to that at another. Each has an id of its own.
    pub fn arrow(&mut self, id: u64, name: &str, from: (TrackId, u64), to: (TrackId, u64)) {
        let (start, end) = (Micros(from.1), Micros(to.1));
        self.event(
            's',
            from.0,
            name,
            format_args!(",\"cat\":\"flow\",\"id\":{id},\"ts\":{start}"),
        );
        self.event(
            'f',
            to.0,
            name,
            format_args!(",\"cat\":\"flow\",\"bp\":\"e\",\"id\":{id},\"ts\":{end}"),
        );
    }

    /// The file of a world that is to be written to `path`: `trace.json` for the first in a process, `trace.2.json` for the
    /// second.
    pub fn file(path: &Path) -> PathBuf {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let count = files.get_or_insert_default().entry(path.to_owned()).or_default();
        *count += 1;
        match (*count, path.extension()) {
            (1, _) => path.to_owned(),
            (n, Some(extension)) => path.with_extension(format!("{n}.{}", extension.display())),
            (n, None) => path.with_extension(n.to_string()),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        write!(file, "{self}")?;
        file.flush()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
            self.events
        )
    }
}
