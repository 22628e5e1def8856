//! The job secret: proven both ways, never sent.

use crate::BootstrapError;
use crate::random::random;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A random number that is used once.
pub(crate) type Nonce = [u8; 32];
/// A proof.
pub(crate) type Tag = [u8; 32];

/// Guessing 16 bytes is out of reach even if a proof was overheard.
const LEAST: usize = 16;
/// More than any secret; a file that was named by mistake is not read whole.
const MOST: u64 = 4096;

/// What every process of a job knows and nobody else: SHMEM_SECRET, or the content of SHMEM_SECRET_FILE.
///
/// It never goes over the network: each side proves by HMAC-SHA256 over the other's fresh random number that it has it.
/// Its bytes are not shown by `Debug`.
///
/// ```
/// use shmem_bootstrap::Secret;
///
/// let secret = Secret::new("0123456789abcdef")?;
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert!(Secret::new("short").is_err());
/// # Ok::<(), shmem_bootstrap::BootstrapError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Takes a text of at least 16 bytes.
    ///
    /// # Errors
    /// [`WeakSecret`](BootstrapError::WeakSecret).
    pub fn new(text: impl Into<Vec<u8>>) -> Result<Self, BootstrapError> {
        let bytes = text.into();
        if bytes.len() < LEAST {
            return Err(BootstrapError::WeakSecret {
                bytes: bytes.len(),
                least: LEAST,
            });
        }
        Ok(Self(bytes))
    }

    /// Makes a new one, 64 hexadecimal digits, for a launcher to hand on.
    ///
    /// # Errors
    /// [`System`](BootstrapError::System) where there are no random numbers.
    pub fn random() -> Result<Self, BootstrapError> {
        let bytes: Nonce = random()?;
        Ok(Self(
            bytes.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect(),
        ))
    }

    /// Reads the file, less white space at its end. It must be a regular file of this user's (or root's) that nobody else
    /// can read or write: mode 0600 or 0400.
    ///
    /// # Errors
    /// [`SecretFile`](BootstrapError::SecretFile), [`WeakSecret`](BootstrapError::WeakSecret).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, BootstrapError> {
        let path = path.as_ref();
        let refuse = |cause: String| BootstrapError::SecretFile {
            path: path.display().to_string(),
            cause,
        };
        let file = std::fs::File::open(path).map_err(|e| refuse(e.to_string()))?;
        // Asked of the open file, so that it can't be exchanged in between.
        let about = file.metadata().map_err(|e| refuse(e.to_string()))?;
        if !about.is_file() {
            return Err(refuse("not a regular file".into()));
        }
        let mode = about.mode() & 0o7777;
        if mode != 0o600 && mode != 0o400 {
            return Err(refuse(format!(
                "mode {mode:04o}, others may see it: chmod 600, and take a new secret"
            )));
        }
        let me = rustix::process::geteuid().as_raw();
        if about.uid() != me && about.uid() != 0 {
            return Err(refuse(format!(
                "belongs to user {}, this process is user {me}'s",
                about.uid()
            )));
        }
        let mut bytes = Vec::new();
        file.take(MOST + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| refuse(e.to_string()))?;
        if bytes.len() as u64 > MOST {
            return Err(refuse(format!("larger than {MOST} bytes")));
        }
        bytes.truncate(bytes.trim_ascii_end().len());
        Self::new(bytes)
    }

    /// The text, for the environment of a process of the job. Don't put it into an argument list, which everybody can read.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// HMAC-SHA256 of the parts, each with its length, so that bytes can't move from one to the next.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> Tag {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether the tag is right, in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], tag: &Tag) -> bool {
        self.mac(parts).verify_slice(tag).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tags_are_hmac_sha256_and_bound_to_key_and_parts() {
        let secret = Secret::new("0123456789abcdef").unwrap();
        let tag = secret.sign(&[b"ab", b"c"]);
        assert!(secret.verify(&[b"ab", b"c"], &tag));
        assert!(!secret.verify(&[b"a", b"bc"], &tag));
        assert!(!Secret::new("0123456789abcdeg").unwrap().verify(&[b"ab", b"c"], &tag));
    }

    #[test]
    fn a_file_must_be_for_its_owner_only() {
        let path = std::env::temp_dir().join(format!("shmem-secret-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        for (mode, good) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o644, false),
            (0o666, false),
            (0o700, false),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = Secret::from_file(&path);
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
            if good {
                assert_eq!(read.unwrap().reveal(), b"0123456789abcdef");
            }
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "short \n").unwrap();
        assert_eq!(
            Secret::from_file(&path),
            Err(BootstrapError::WeakSecret { bytes: 5, least: 16 })
        );
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            Secret::from_file(&path),
            Err(BootstrapError::SecretFile { .. })
        ));
        assert!(matches!(
            Secret::from_file("/dev/zero"),
            Err(BootstrapError::SecretFile { .. })
        ));
    }
}
