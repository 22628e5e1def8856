//! What processes tell each other, as bytes.

use crate::{Error, HeapError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // A vector takes everything, and none of these types refuses to be written.
    postcard::to_allocvec(value).unwrap_or_default()
}

/// None for bytes that are no such value, or more than one.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// An allocation's outcome on one PE: a full device travels with its values, all else as words.
#[derive(Serialize, Deserialize)]
enum Outcome {
    Ready,
    OutOfMemory {
        pe: u32,
        asked: u64,
        free: u64,
        total: u64,
        device: String,
    },
    Refused(String),
}

/// For `serde(with)`.
pub(crate) mod outcome {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(result: &Result<(), Error>, to: S) -> Result<S::Ok, S::Error> {
        let outcome = match result.clone() {
            Ok(()) => Outcome::Ready,
            Err(Error::Heap(HeapError::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device,
            })) => Outcome::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device,
            },
            Err(other) => Outcome::Refused(other.to_string()),
        };
        outcome.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Result<(), Error>, D::Error> {
        Ok(match Outcome::deserialize(from)? {
            Outcome::Ready => Ok(()),
            Outcome::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device,
            } => Err(HeapError::OutOfMemory {
                pe,
                asked,
                free,
                total,
                device,
            }
            .into()),
            Outcome::Refused(cause) => Err(HeapError::Refused { cause }.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Call, Turn};
    use crate::heap::AllocRequest;
    use proptest::prelude::*;
    use std::panic::Location;

    #[test]
    fn turns_come_back_as_they_were() {
        let full = HeapError::OutOfMemory {
            pe: 3,
            asked: 1,
            free: 2,
            total: 3,
            device: "the simulator".to_owned(),
        };
        let site = Location::caller();
        let calls = [
            Call::Start,
            Call::Alloc(AllocRequest::of::<(u8, f32)>(7, site)),
            Call::Reclaim,
            Call::Ready(Ok(())),
            Call::Ready(Err(full.into())),
            Call::Barrier,
        ];
        let turns = calls.map(|call| Turn {
            call,
            site: site.into(),
            dropped: vec![u64::MAX, 0],
            dropped_teams: 5,
        });
        let back: Vec<Turn> = decode(&encode(&turns.to_vec())).unwrap();
        assert_eq!(format!("{back:?}"), format!("{turns:?}"));
        let mut longer = encode(&turns.to_vec());
        longer.push(0);
        assert!(decode::<Vec<Turn>>(&longer).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Option<Vec<Turn>>>(&bytes);
        }
    }
}
