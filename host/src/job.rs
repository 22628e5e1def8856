//! The processes that a launcher has started, as [`Processes`].

use crate::Error;
use crate::processes::Processes;
use shmem_bootstrap::{Bootstrap, BootstrapError, Settings};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// What a launcher has started.
pub(crate) enum Job {
    /// One process.
    Alone,
    /// Several, which have found each other.
    Joined(Arc<dyn Processes>),
}

/// This process's place in its job, until the World is over.
struct Place {
    rank: u32,
    size: u32,
    /// None once it has left. Only leaving takes it for itself: all other calls go side by side.
    bootstrap: RwLock<Option<Bootstrap>>,
}

const LEFT: &str = "this process has left its job";

impl Job {
    /// Joins the job that the environment tells of; None without a launcher.
    pub(crate) fn from_env() -> Result<Option<Self>, Error> {
        let Some(settings) = Settings::from_env()? else {
            return Ok(None);
        };
        if settings.size() == 1 {
            return Ok(Some(Self::Alone));
        }
        let bootstrap = Bootstrap::join(&settings).map_err(|error| match error {
            // Which PE it would have had is not known where each process has several.
            BootstrapError::PeerFailed(failure) => Error::PeerFailed {
                pe: failure.rank,
                cause: failure.cause,
            },
            other => other.into(),
        })?;
        Ok(Some(Self::Joined(Arc::new(Place {
            rank: bootstrap.rank(),
            size: bootstrap.size(),
            bootstrap: RwLock::new(Some(bootstrap)),
        }))))
    }
}

impl Place {
    fn bootstrap(&self) -> RwLockReadGuard<'_, Option<Bootstrap>> {
        self.bootstrap.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes for Place {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn allgather(&self, mine: Vec<u8>, limit: Option<Duration>) -> Result<Vec<Vec<u8>>, String> {
        let gathered = match &*self.bootstrap() {
            Some(bootstrap) => bootstrap.allgather(&mine, limit.unwrap_or(Duration::MAX)),
            None => return Err(LEFT.to_owned()),
        };
        gathered.map_err(|error: BootstrapError| error.to_string())
    }

    fn send(&self, to: u32, letter: &[u8], limit: Option<Duration>) -> Result<(), String> {
        match &*self.bootstrap() {
            Some(bootstrap) => bootstrap
                .send(to, letter, limit.unwrap_or(Duration::MAX))
                .map_err(|error| error.to_string()),
            None => Err(LEFT.to_owned()),
        }
    }

    fn receive(&self, within: Duration) -> Result<Option<Vec<u8>>, String> {
        match &*self.bootstrap() {
            Some(bootstrap) => match bootstrap.receive(within) {
                Ok(letter) => Ok(letter.map(|(_, bytes)| bytes)),
                Err(error) => Err(error.to_string()),
            },
            None => Err(LEFT.to_owned()),
        }
    }

    fn fail(&self, cause: &str) {
        if let Some(bootstrap) = &*self.bootstrap() {
            bootstrap.fail(cause);
        }
    }

    fn failure(&self) -> Option<(u32, String)> {
        let failure = self.bootstrap().as_ref()?.failure()?;
        Some((failure.rank, failure.cause))
    }

    fn finish(&self, limit: Option<Duration>) -> Result<(), String> {
        let left = self.bootstrap.write().unwrap_or_else(PoisonError::into_inner).take();
        match left {
            Some(bootstrap) => bootstrap
                .finish(limit.unwrap_or(Duration::MAX))
                .map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
