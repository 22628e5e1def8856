//! The lines of the processes, each whole and with the rank before it.

use std::io::{BufRead, BufReader, Read, Write};
use std::thread::JoinHandle;

/// Longer lines are cut into several, so that a program that never ends its line can't fill memory.
const LONGEST_LINE: u64 = 1 << 16;

/// Copies line by line until the end. One write per line under the stream's lock: lines of several processes don't mix.
pub(crate) fn copy(
    from: impl Read + Send + 'static,
    label: String,
    mut to: impl Write + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            line.extend_from_slice(label.as_bytes());
            match (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            // Nobody may read it any more; the processes must not be held up by that.
            let _ = to.write_all(&line).and_then(|()| to.flush());
        }
    })
}
