//! What decides a run: a seed, and which of its random decisions are made.

use crate::config::SimError;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const VARIABLE: &str = "SHMEM_SIM_SEED";

/// A seed, and which random decisions are made: what `SHMEM_SIM_SEED` holds. `17` is a seed with all of them,
/// `17:3,9,12` has three of them and is plain in all others.
///
/// ```
/// let seed: shmem_sim::Seed = "17:3,9,12".parse()?;
/// assert_eq!((seed.number, seed.to_string().as_str()), (17, "17:3,9,12"));
/// # Ok::<(), shmem_sim::NoSeed>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    /// The seed.
    pub number: u64,
    /// The numbers of the decisions that are made, ascending; None: all.
    pub choices: Option<Arc<[u64]>>,
}

/// What is no [`Seed`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no seed: it is a number, as 17, or with decisions that are made, as 17:3,9,12")]
pub struct NoSeed(String);

impl Seed {
    /// What `SHMEM_SIM_SEED` holds, if it is set.
    ///
    /// # Errors
    /// It holds something else.
    pub fn from_env() -> Result<Option<Self>, SimError> {
        let Ok(value) = std::env::var(VARIABLE) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(seed) => Ok(Some(seed)),
            Err(NoSeed(value)) => Err(SimError::Environment {
                variable: VARIABLE,
                value,
                wanted: "a number, or as 17:3,9,12",
            }),
        }
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        Self { number, choices: None }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        if let Some(choices) = &self.choices {
            let list: Vec<String> = choices.iter().map(u64::to_string).collect();
            write!(f, ":{}", list.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Seed {
    type Err = NoSeed;

    fn from_str(text: &str) -> Result<Self, NoSeed> {
        let bad = || NoSeed(text.to_owned());
        let (number, choices) = match text.split_once(':') {
            None => (text, None),
            Some((number, "")) => (number, Some(Vec::new())),
            Some((number, list)) => {
                let list: Result<Vec<u64>, _> = list.split(',').map(str::parse).collect();
                let mut list = list.map_err(|_| bad())?;
                list.sort_unstable();
                list.dedup();
                (number, Some(list))
            }
        };
        Ok(Self {
            number: number.parse().map_err(|_| bad())?,
            choices: choices.map(Arc::from),
        })
    }
}

/// The number of the seed that `SHMEM_SIM_SEED` holds, or 0.
///
/// # Errors
/// It holds something else than a seed.
pub fn seed_from_env() -> Result<u64, SimError> {
    Ok(Seed::from_env()?.unwrap_or_default().number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_comes_back_as_it_was_written() {
        for text in ["0", "18446744073709551615", "3:", "17:3,9,12"] {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        for text in ["", "x", "1:2,,3", ":4", "1:-2"] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }
}
