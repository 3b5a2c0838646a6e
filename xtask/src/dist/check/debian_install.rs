//! The Debian package: installed, started, upgraded, removed and purged, in an overlay of this machine's root.
//!
//! Shape: dpkg and the package's scripts run as on a machine, in a root that stores its changes in memory. There is no
//! systemd: the unit's command is started as systemd does, as its user, in its directory, with its environment only.
//! Not here: the sandbox of the unit, which `systemd-analyze` reads, if it is there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist::check::running_node::RunningNode;
use crate::dist::check::skipped_checks::SkippedChecks;
use crate::dist::debian::{SETTINGS, STATE_DIR, UNIT};
use crate::shell::Cmd;

/// Name of the package and of its user.
const NAME: &str = "hydrant";
/// Path of a package while it is installed.
const PACKAGE: &str = "var/tmp/package.deb";
/// Exposure of the unit, in tenths of `systemd-analyze security`: 0 to 100. Units without a sandbox have 96.
const EXPOSURE_MAX: &str = "25";
/// A change of the settings: other nodes may have the default ports.
const SETTING: (&str, &str) = ("--log --quiet", "--log --rpc-port 0");

/// Installs `package` in an overlay below `scratch`, upgrades it to `upgrade`, removes and purges it.
pub(crate) fn check(
    package: &Path,
    upgrade: &Path,
    scratch: &Path,
    skipped: &mut SkippedChecks,
) -> Result<()> {
    let root = OverlayRoot::mount(scratch)?;
    root.install(package)?;
    let [environment, _] = SETTINGS.map(|(_, path)| root.path(path));
    let settings = fs::read_to_string(&environment)?.replace(SETTING.0, SETTING.1);
    ensure!(settings.contains(SETTING.1), "{settings}");
    fs::write(&environment, &settings)?;
    root.check_owners()?;
    root.check_unit(skipped)?;
    let node = root.start_unit()?;
    node.check_health()?;
    let genesis = node.call("getGenesisHash")?;
    node.stop()?;
    println!("Debian package: installed, started as its user, healthy, stopped");

    root.install(upgrade)?;
    ensure!(fs::read_to_string(&environment)? == settings, "the upgrade changed the settings");
    let node = root.start_unit()?;
    node.check_health()?;
    ensure!(node.call("getGenesisHash")? == genesis, "the upgrade lost the ledger");
    node.stop()?;
    println!("Debian package: upgraded, with its settings and its ledger");

    root.run(&["dpkg", "--remove", NAME])?;
    ensure!(!root.path("usr/bin/hydrant").exists(), "the program is still there");
    ensure!(environment.exists(), "the settings were removed");
    ensure!(root.path(STATE_DIR).join("ledger").exists(), "the ledger was removed");
    root.run(&["dpkg", "--purge", NAME])?;
    let left = root.paths_left()?;
    ensure!(left.is_empty(), "after the purge there are {left:?}");
    for file in ["etc/passwd", "etc/group", "var/lib/dpkg/status"] {
        let text = fs::read_to_string(root.path(file))?;
        ensure!(!text.contains(NAME), "after the purge {file} names {NAME}");
    }
    println!("Debian package: removed with its ledger left, purged with nothing left");
    Ok(())
}

/// This machine's root, with changes that end with this process.
struct OverlayRoot {
    /// Directory of the files that differ from the machine's.
    upper: PathBuf,
    root: PathBuf,
}

impl OverlayRoot {
    fn mount(scratch: &Path) -> Result<Self> {
        fs::create_dir_all(scratch)?;
        mount(&["-t", "tmpfs", "none"], scratch)?;
        let [upper, work, root] = ["upper", "work", "root"].map(|name| scratch.join(name));
        for dir in [&upper, &work, &root] {
            fs::create_dir(dir)?;
        }
        let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
        mount(&["-t", "overlay", "overlay", "-o", &options], &root)?;
        for dir in ["proc", "dev"] {
            mount(&["--rbind", &format!("/{dir}")], &root.join(dir))?;
        }
        Ok(Self { upper, root })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns a command that runs in the overlay.
    fn command(&self, args: &[&str]) -> Cmd {
        Cmd::new("chroot").args([self.root.to_string_lossy()]).args(args)
    }

    fn run(&self, args: &[&str]) -> Result<()> {
        self.command(args).env("DEBIAN_FRONTEND", "noninteractive").run()
    }

    fn install(&self, package: &Path) -> Result<()> {
        fs::copy(package, self.path(PACKAGE)).with_context(|| package.display().to_string())?;
        self.run(&["dpkg", "--install", &format!("/{PACKAGE}")])?;
        fs::remove_file(self.path(PACKAGE)).context("remove the package's file")
    }

    /// Checks that the user has its directory, reads the settings, and owns nothing else.
    fn check_owners(&self) -> Result<()> {
        let uid = self.command(&["id", "--user", NAME]).output()?;
        let uid: u32 = uid.trim().parse()?;
        ensure!(uid != 0 && uid < 1_000, "{uid} is no user of the system");
        let owner = |path: &str| {
            let metadata = fs::metadata(self.path(path)).with_context(|| path.to_owned())?;
            anyhow::Ok((metadata.uid(), metadata.mode() & 0o7777))
        };
        ensure!(owner(STATE_DIR)? == (uid, 0o750), "{STATE_DIR}: {:?}", owner(STATE_DIR)?);
        ensure!(owner("etc/hydrant")? == (0, 0o750), "etc/hydrant: {:?}", owner("etc/hydrant")?);
        ensure!(owner("usr/bin/hydrant")? == (0, 0o755), "the program has another owner");
        Ok(())
    }

    fn check_unit(&self, skipped: &mut SkippedChecks) -> Result<()> {
        if !self.path("usr/bin/systemd-analyze").exists() {
            skipped.add("the systemd unit", "this machine has no systemd-analyze");
            return Ok(());
        }
        let unit = format!("/{UNIT}");
        // Without the manual: `man` would store a formatted page.
        self.run(&["systemd-analyze", "verify", "--man=no", &unit])?;
        let threshold = format!("--threshold={EXPOSURE_MAX}");
        let security = ["systemd-analyze", "security", "--no-pager", "--offline=true"];
        self.command(&security).args([&threshold, &unit]).output().map(drop)
    }

    /// Starts the command of the unit.
    fn start_unit(&self) -> Result<RunningNode> {
        let unit = fs::read_to_string(self.path(UNIT))?;
        let setting = |name: &str| setting(&unit, name);
        let file = setting("EnvironmentFile")?;
        let variables = fs::read_to_string(self.path(file.trim_start_matches('/')))?;
        let variables = parse_variables(&variables);
        let command = expand_command(setting("ExecStart")?, &variables);
        let user = setting("User")?;
        let group = setting("Group")?;
        let directory = setting("WorkingDirectory")?;
        RunningNode::start(|socket| {
            let environment = variables.iter().map(|(name, value)| format!("{name}={value}"));
            self.command(&["setpriv", "--reuid", user, "--regid", group, "--init-groups"])
                .args(["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"])
                .args(["env", "--chdir", directory, "-i", &format!("NOTIFY_SOCKET={socket}")])
                .args(environment)
                .args(&command)
        })
    }

    /// Returns the paths with the package's name that its installation has added.
    fn paths_left(&self) -> Result<Vec<PathBuf>> {
        let mut left = Vec::new();
        collect_named(&self.upper, &mut left)?;
        Ok(left)
    }
}

fn mount(args: &[&str], target: &Path) -> Result<()> {
    Cmd::new("mount").args(args).args([target.to_string_lossy()]).run()
}

/// Collects the paths below `dir` with [`NAME`] in their last part. A device is how an overlay hides a path below it.
fn collect_named(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().to_string_lossy().contains(NAME) && !kind.is_char_device() {
            found.push(entry.path());
        }
        if kind.is_dir() {
            collect_named(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// Returns the value of a setting of a unit.
fn setting<'a>(unit: &'a str, name: &str) -> Result<&'a str> {
    let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.with_context(|| format!("the unit has no {name}"))
}

/// Parses the variables of a file for the environment: `NAME=VALUE`, `NAME="VALUE"`.
fn parse_variables(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let variables = lines.filter_map(|line| line.split_once('='));
    variables.map(|(name, value)| (name, value.trim_matches('"'))).collect()
}

/// Splits a command line into words. A word `$NAME` is replaced by the words of the variable.
fn expand_command(line: &str, variables: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut command = Vec::new();
    for word in line.split_whitespace() {
        let value = word.strip_prefix('$').map(|name| variables.get(name).copied());
        let words = value.map_or(word, Option::unwrap_or_default);
        command.extend(words.split_whitespace().map(str::to_owned));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::installed_files::packaging;

    #[test]
    fn variables_in_a_unit_s_command_are_expanded() {
        let unit = "[Service]\n# ExecStart=no\nExecStartPre=no\nExecStart=/bin/x -a $ARGS $NONE\n";
        let variables = parse_variables("# A=1\n\nARGS=\"dev --log\"\nRUST_LOG=info\n");
        assert_eq!(variables.len(), 2);
        let command = expand_command(setting(unit, "ExecStart").unwrap(), &variables);
        assert_eq!(command, ["/bin/x", "-a", "dev", "--log"]);
        assert!(setting(unit, "User").is_err());
    }

    #[test]
    fn the_unit_bounds_restarts_memory_and_threads() {
        let unit = packaging("debian/hydrant.service").unwrap();
        let unit = String::from_utf8(unit).unwrap();
        for (name, value) in [
            ("StartLimitIntervalSec", "1h"),
            ("StartLimitBurst", "5"),
            ("MemoryMax", "90%"),
            ("TasksMax", "4096"),
        ] {
            assert_eq!(setting(&unit, name).unwrap(), value);
        }
    }
}
