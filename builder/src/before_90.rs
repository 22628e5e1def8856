//! Instructions that not every architecture has.
//!
//! A dependency is compiled once for all architectures, so it can't choose between instructions. It writes that of sm_90 in
//! `asm!`, and behind it in a comment what older ones do instead, which may be nothing:
//! `mov.u32 %r1, %cluster_ctarank; // shmem-before-90 mov.u32 %r1, 0;`. Another comment stands behind what only sm_90a has,
//! and no later one: `wgmma.fence.sync.aligned; // shmem-except-90a`.

/// What starts the comment.
const BEFORE_90: &str = "// shmem-before-90";
const EXCEPT_90A: &str = "// shmem-except-90a";

/// The text with each line that has such a comment replaced by what the comment says, where the target lacks the instruction.
pub(crate) fn replace(mut ptx: String) -> String {
    let Some(target) = target(&ptx) else { return ptx };
    for (comment, lacks) in [(BEFORE_90, target.number < 90), (EXCEPT_90A, !target.is_90a)] {
        if lacks && ptx.contains(comment) {
            ptx = without(&ptx, comment);
        }
    }
    ptx
}

fn without(ptx: &str, comment: &str) -> String {
    let mut result = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match line.split_once(comment) {
            Some((_, instead)) => {
                result.push('\t');
                result.push_str(instead.trim_start_matches(' '));
            }
            None => result.push_str(line),
        }
    }
    result
}

struct Target {
    /// 90 of `sm_90a`.
    number: u32,
    is_90a: bool,
}

/// What follows `.target sm_`.
fn target(ptx: &str) -> Option<Target> {
    let (_, rest) = ptx.split_once("\n.target sm_")?;
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    let number = name.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(Target {
        number,
        is_90a: name == "90a",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(target: &str) -> String {
        format!(
            ".version 7.8\n.target {target}\n\tmov.u32 %r1, %cluster_ctarank; // shmem-before-90 mov.u32 %r1, 0;\n\
             \tbarrier.cluster.wait; // shmem-before-90\n\tmov.u32 %r1, 1; // shmem-except-90a mov.u32 %r1, 0;\n\tret;\n"
        )
    }

    const ELSE: &str = "\tmov.u32 %r1, 0;\n";

    #[test]
    fn older_architectures_get_what_the_comment_says() {
        for older in ["sm_80", "sm_89"] {
            let expected = format!(".version 7.8\n.target {older}\n{ELSE}\t\n{ELSE}\tret;\n");
            assert_eq!(replace(text(older)), expected);
        }
    }

    #[test]
    fn what_one_alone_has_no_other_keeps() {
        for target in ["sm_90", "sm_100", "sm_100a"] {
            let kept = text(target);
            let (kept, _) = kept.split_once("\tmov.u32 %r1, 1;").unwrap();
            assert_eq!(replace(text(target)), format!("{kept}{ELSE}\tret;\n"));
        }
        assert_eq!(replace(text("sm_90a")), text("sm_90a"));
    }
}
