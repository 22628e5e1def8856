//! How outcomes read, and where the book keeps them.

use crate::Outcome;
use anyhow::{Context, bail};
use shmem_sim::Failure;
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- gallery: begin -->";
const END: &str = "<!-- gallery: end -->";

/// The table, as Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from("| bug | what it is | reported as | in so many seeds | twin | the report begins |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for outcome in outcomes {
        let case = outcome.case;
        let seen: Vec<String> = case
            .seen
            .split(", ")
            .filter(|link| !link.is_empty())
            .map(|link| format!(" [seen]({link})"))
            .collect();
        let report = outcome
            .bug
            .first
            .as_ref()
            .map_or_else(String::new, |(_, f)| headline(f));
        let bug = &outcome.bug;
        let twin = if outcome.is_clean() {
            format!("clean in {}", outcome.twin.seeds)
        } else {
            format!("**{} fail**", outcome.twin.other)
        };
        let _ = writeln!(
            text,
            "| {} | {}{} | {}{} | {} of {} | {twin} | {} |",
            case.name,
            case.about,
            seen.concat(),
            case.expected,
            if bug.other == 0 { "" } else { ", **and otherwise**" },
            bug.found,
            bug.seeds,
            report.replace('|', "\\|"),
        );
    }
    text
}

/// What a reader sees first: the sentence, without the seed and without what a table has in another column.
fn headline(failure: &Failure) -> String {
    match failure {
        Failure::Bug(bug) => bug.what.clone(),
        Failure::Deadlock { report } => {
            // A lane that waits for something from outside its block, else any that waits.
            let with = |text: &str| report.lines().find(|line| line.contains(text));
            let line = ["has not come", "wanted", "waits for"].into_iter().find_map(with);
            let line = line.unwrap_or_default().trim();
            line.split_once(": ").map_or(line, |(_, what)| what).to_owned()
        }
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
    .replace("tests/gallery/src/cases/", "")
}

/// The whole report of every bug, and of everything that went otherwise.
pub fn details(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { case, bug, twin } in outcomes {
        let _ = writeln!(text, "\n== {}: {}", case.name, case.about);
        let reports = [
            ("", &bug.first),
            ("OTHERWISE: ", &bug.first_other),
            ("TWIN: ", &twin.first_other),
        ];
        for (label, report) in reports {
            if let Some((seed, failure)) = report {
                let _ = writeln!(text, "{label}seed {seed}: {failure}");
            }
        }
    }
    text
}

/// Puts the table between the markers of a page.
///
/// # Errors
/// The page can't be read or written, or has no markers.
pub fn write(page: &Path, table: &str) -> anyhow::Result<()> {
    let at = || page.display().to_string();
    let old = std::fs::read_to_string(page).with_context(at)?;
    let (Some(begin), Some(end)) = (old.find(BEGIN), old.find(END)) else {
        bail!("{} lacks the markers {BEGIN} and {END}", at());
    };
    let (before, after) = (&old[..begin], &old[end..]);
    std::fs::write(page, format!("{before}{BEGIN}\n{table}{after}")).with_context(at)
}
