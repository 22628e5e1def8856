//! The GPU architectures that kernels can be compiled for.

use std::{error, fmt, str::FromStr};

/// A GPU architecture, as `rustc -Ctarget-cpu` and `.target` in PTX name it.
///
/// The driver compiles PTX for the GPU it finds, so an image for one architecture also runs on every later one. The
/// exception is [`Arch::Sm90a`]: its extra instructions exist on compute capability 9.0 and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Arch {
    /// A100.
    Sm80,
    /// A10, A40, RTX 30.
    Sm86,
    /// Jetson Orin.
    Sm87,
    /// L4, L40, RTX 40.
    Sm89,
    /// H100, H200, GH200.
    Sm90,
    /// H100, H200, GH200 and nothing later: adds `wgmma` and `setmaxnreg`.
    Sm90a,
    /// B100, B200, GB200.
    Sm100,
    /// B300, GB300.
    Sm103,
    /// RTX 50, RTX PRO Blackwell.
    Sm120,
}

impl Arch {
    /// Every architecture, in ascending order.
    pub const ALL: [Self; 9] = [
        Self::Sm80,
        Self::Sm86,
        Self::Sm87,
        Self::Sm89,
        Self::Sm90,
        Self::Sm90a,
        Self::Sm100,
        Self::Sm103,
        Self::Sm120,
    ];

    /// What is compiled when neither the build script nor `SHMEM_ARCH` says anything.
    pub const DEFAULT: [Self; 2] = [Self::Sm80, Self::Sm90];

    /// The name that compilers use, such as `sm_90a`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm87 => "sm_87",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm90a => "sm_90a",
            Self::Sm100 => "sm_100",
            Self::Sm103 => "sm_103",
            Self::Sm120 => "sm_120",
        }
    }

    /// The compute capability times ten: 90 for [`Arch::Sm90`] and for [`Arch::Sm90a`].
    pub const fn number(self) -> u32 {
        match self {
            Self::Sm80 => 80,
            Self::Sm86 => 86,
            Self::Sm87 => 87,
            Self::Sm89 => 89,
            Self::Sm90 | Self::Sm90a => 90,
            Self::Sm100 => 100,
            Self::Sm103 => 103,
            Self::Sm120 => 120,
        }
    }

    /// Whether an image for this architecture runs on this compute capability only, not on later ones.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::Sm90a)
    }

    /// All names, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Ascending and each once, as images are listed; the default where `chosen` is empty.
    pub(crate) fn sorted_or_default(mut chosen: Vec<Self>) -> Vec<Self> {
        if chosen.is_empty() {
            chosen.extend(Self::DEFAULT);
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Arch {
    type Err = ParseArchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|arch| arch.name() == text);
        known.ok_or_else(|| ParseArchError { text: text.into() })
    }
}

/// The text is no [`Arch`]; the message lists those that are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseArchError {
    text: String,
}

impl fmt::Display for ParseArchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no GPU architecture known here: use one of {}",
            self.text,
            Arch::names()
        )
    }
}

impl error::Error for ParseArchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
            assert_eq!(arch.to_string(), arch.name());
        }
    }

    #[test]
    fn ascending_order_is_the_order_of_numbers() {
        assert!(Arch::ALL.is_sorted_by(|a, b| a < b && a.number() <= b.number()));
    }

    #[test]
    fn a_wrong_name_lists_the_valid_ones() {
        let message = "sm_91".parse::<Arch>().unwrap_err().to_string();
        assert!(
            message.contains("`sm_91`") && message.contains("sm_90, sm_90a, sm_100"),
            "{message}"
        );
        assert!("90".parse::<Arch>().is_err());
    }

    #[test]
    fn choices_are_sorted_and_unique() {
        let chosen = vec![Arch::Sm90, Arch::Sm80, Arch::Sm90];
        assert_eq!(Arch::sorted_or_default(chosen), [Arch::Sm80, Arch::Sm90]);
        assert_eq!(Arch::sorted_or_default(vec![]), Arch::DEFAULT);
    }
}
