//! Instructions that sm_90 brought, in PTX for older architectures.
//!
//! A dependency is compiled once for all architectures, so it can't choose between instructions. It writes that of sm_90 in
//! `asm!`, and behind it in a comment what older ones do instead, which may be nothing:
//! `mov.u32 %r1, %cluster_ctarank; // shmem-before-90 mov.u32 %r1, 0;`.

/// Starts the comment.
const COMMENT: &str = "// shmem-before-90";

/// The first architecture that has the instructions.
const FIRST: u32 = 90;

/// The text with each line that has such a comment replaced by what the comment says, where it is for an older architecture.
pub(crate) fn replace(ptx: String) -> String {
    if target(&ptx).is_none_or(|number| number >= FIRST) || !ptx.contains(COMMENT) {
        return ptx;
    }
    let mut result = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match line.split_once(COMMENT) {
            Some((_, instead)) => {
                result.push('\t');
                result.push_str(instead.trim_start_matches(' '));
            }
            None => result.push_str(line),
        }
    }
    result
}

/// 80 of `.target sm_80`
fn target(ptx: &str) -> Option<u32> {
    let (_, rest) = ptx.split_once("\n.target sm_")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(target: &str) -> String {
        format!(
            ".version 7.8\n.target {target}\n\tmov.u32 %r1, %cluster_ctarank; // shmem-before-90 mov.u32 %r1, 0;\n\
             \tbarrier.cluster.wait; // shmem-before-90\n\tret;\n"
        )
    }

    #[test]
    fn older_architectures_get_what_the_comment_says() {
        for older in ["sm_80", "sm_89"] {
            let expected = format!(".version 7.8\n.target {older}\n\tmov.u32 %r1, 0;\n\t\n\tret;\n");
            assert_eq!(replace(text(older)), expected);
        }
    }

    #[test]
    fn the_others_keep_the_instruction() {
        for target in ["sm_90", "sm_90a", "sm_100"] {
            assert_eq!(replace(text(target)), text(target));
        }
    }
}
