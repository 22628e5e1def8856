//! Running other programs: what is run is said, and a failure names it.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Cargo, in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Says the command and runs it.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("xtask: {}", text(command));
    let status = command
        .status()
        .with_context(|| format!("could not start `{}`", text(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", text(command));
    }
    Ok(())
}

/// Runs the command at low priority, beside others; shows what it printed when it has ended.
pub(crate) fn beside(command: &Command) -> anyhow::Result<()> {
    let mut low = if cfg!(unix) {
        let mut nice = Command::new("nice");
        nice.args(["-n", "5"]).arg(command.get_program());
        nice
    } else {
        Command::new(command.get_program())
    };
    low.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => low.env(name, value),
            None => low.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        low.current_dir(folder);
    }
    eprintln!("xtask: {} (in the background)", text(command));
    let out = low
        .output()
        .with_context(|| format!("could not start `{}`", text(&low)))?;
    eprintln!(
        "xtask: {}\n{}{}",
        text(command),
        String::from_utf8_lossy(&out.stderr),
        String::from_utf8_lossy(&out.stdout)
    );
    if !out.status.success() {
        bail!("`{}` failed: {}", text(command), out.status);
    }
    Ok(())
}

/// What the command prints; an error names it with what it said.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let out = command
        .output()
        .with_context(|| format!("could not start `{}`", text(command)))?;
    if !out.status.success() {
        bail!(
            "`{}` failed: {}\n{}",
            text(command),
            out.status,
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn text(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
