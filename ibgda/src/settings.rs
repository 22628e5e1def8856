//! What the user may choose.

use crate::error::IbgdaError;

/// How queue pairs share pages of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// One page for all: enough for adapters, which take each write as it comes.
    #[default]
    Shared,
    /// A page each: where registers lie in memory and are polled.
    Each,
}

/// How an [`Endpoint`](crate::Endpoint) is opened.
///
/// | variable | default | what |
/// |---|---|---|
/// | `SHMEM_HCA` | the active port nearest to the GPU | `mlx5_0`, `mlx5_0:1` (with port), or several with commas: the nearest of these |
/// | `SHMEM_GID_INDEX` | the first RoCE v2 address, IPv4 before others | own entry of the port's GID table |
/// | `SHMEM_TRAFFIC_CLASS` | 0 | traffic class of packets on RoCE, 0 to 255 |
/// | `SHMEM_SERVICE_LEVEL` | 0 | service level of packets on InfiniBand, 0 to 15 |
/// | `SHMEM_PARTITION` | 0 | index of the partition key, 0 to 65535 |
/// | `SHMEM_ACK_TIMEOUT` | 20 | a packet is sent again after 4.096 us times 2 to this, 1 to 31 |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `SHMEM_HCA`.
    pub hca: Option<String>,
    /// `SHMEM_GID_INDEX`.
    pub gid_index: Option<u8>,
    /// `SHMEM_TRAFFIC_CLASS`.
    pub traffic_class: u8,
    /// `SHMEM_SERVICE_LEVEL`.
    pub service_level: u8,
    /// `SHMEM_PARTITION`.
    pub partition: u16,
    /// `SHMEM_ACK_TIMEOUT`.
    pub ack_timeout: u8,
    /// Where the PE's GPU is: its folder below `/sys/devices` ([`pci_path`](crate::choice::pci_path)). None: no adapter
    /// is nearer than another.
    pub gpu: Option<String>,
    /// Which of several adapters that are equally near: this number of the PE on its node, modulo their count.
    pub turn: u32,
    /// How queue pairs share pages of registers.
    pub pages: Pages,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hca: None,
            gid_index: None,
            traffic_class: 0,
            service_level: 0,
            partition: 0,
            ack_timeout: 20,
            gpu: None,
            turn: 0,
            pages: Pages::Shared,
        }
    }
}

impl Settings {
    /// What the variables say, and defaults.
    ///
    /// # Errors
    /// [`IbgdaError::Setting`].
    pub fn from_env() -> Result<Self, IbgdaError> {
        // What is no Unicode is refused with the rest that can't be read, not passed over.
        let text = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::from_variables(&|name| text(name).filter(|value| !value.is_empty()))
    }

    /// As [`Settings::from_env`], with variables from elsewhere.
    ///
    /// ```
    /// use shmem_ibgda::Settings;
    /// let settings = Settings::from_variables(&|name| (name == "SHMEM_GID_INDEX").then(|| "3".into()))?;
    /// assert_eq!(settings.gid_index, Some(3));
    /// let wrong = Settings::from_variables(&|name| (name == "SHMEM_ACK_TIMEOUT").then(|| "99".into()));
    /// assert_eq!(wrong.unwrap_err().to_string(), "SHMEM_ACK_TIMEOUT=99: a number from 1 to 31");
    /// # Ok::<(), shmem_ibgda::IbgdaError>(())
    /// ```
    ///
    /// # Errors
    /// [`IbgdaError::Setting`].
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, IbgdaError> {
        let number = |name: &'static str, range: std::ops::RangeInclusive<u16>| match variable(name) {
            None => Ok(None),
            Some(value) => match value.parse() {
                Ok(number) if range.contains(&number) => Ok(Some(number)),
                _ => Err(IbgdaError::Setting {
                    name,
                    value,
                    expected: format!("a number from {} to {}", range.start(), range.end()),
                }),
            },
        };
        let byte = |name, range| number(name, range).map(|n| n.map(|n| n as u8));
        let default = Self::default();
        Ok(Self {
            hca: variable("SHMEM_HCA"),
            gid_index: byte("SHMEM_GID_INDEX", 0..=255)?,
            traffic_class: byte("SHMEM_TRAFFIC_CLASS", 0..=255)?.unwrap_or(default.traffic_class),
            service_level: byte("SHMEM_SERVICE_LEVEL", 0..=15)?.unwrap_or(default.service_level),
            partition: number("SHMEM_PARTITION", 0..=u16::MAX)?.unwrap_or(default.partition),
            ack_timeout: byte("SHMEM_ACK_TIMEOUT", 1..=31)?.unwrap_or(default.ack_timeout),
            ..default
        })
    }
}
