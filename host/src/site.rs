//! Places in source files, of this process or of another.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

/// Where a call stands in the source, also one that another process made.
///
/// ```
/// let site = shmem_host::Site::from(std::panic::Location::caller());
/// assert_eq!(site.to_string(), format!("{}:{}:{}", site.file(), site.line(), site.column()));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    file: Cow<'static, str>,
    line: u32,
    column: u32,
}

impl Site {
    /// The source file, as the compiler was given it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// From 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// From 1.
    pub fn column(&self) -> u32 {
        self.column
    }
}

impl From<&'static Location<'static>> for Site {
    fn from(place: &'static Location<'static>) -> Self {
        Self {
            file: Cow::Borrowed(place.file()),
            line: place.line(),
            column: place.column(),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
