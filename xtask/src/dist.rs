//! `cargo xtask dist`: what users install. A tarball, a Debian package, an OCI image, npm packages, a Python wheel, an
//! install script, a Homebrew formula, and the bill of materials.
//!
//! Input: a program with the feature `cluster`, and the files in `packaging`. Output: the packages in a directory, with
//! their digests.
//! Invariant: the same program gives the same bytes, at any time and in any directory.
//! Not here: signatures, and the upload.

mod check;
mod debian;
mod file_tree;
mod image;
mod install_script;
mod installed_files;
mod npm;
mod options;
mod packages;
mod program;
mod sbom;
mod timestamp;
mod wheel;

use anyhow::{Context, Result};

use self::file_tree::sha256;
use self::options::Options;
use self::packages::PackageSources;
use self::program::Program;
use crate::directories::remove_directory;
use crate::shell::{Cmd, cargo};
use crate::workspace::{CLUSTER_FEATURE_ARGS, root, target_dir};

pub(crate) use self::check::{MOUNTED, run_mounted};
pub(crate) use self::options::USAGE;

/// The time of everything in a package, in seconds of the Unix epoch. See <https://reproducible-builds.org>.
const TIME: &str = "SOURCE_DATE_EPOCH";

/// Makes the packages that the options select, and checks them.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let Options { binary, out, release_url, is_checked, is_strict } = Options::parse(args)?;
    let binary = match binary {
        Some(binary) => binary,
        None => {
            cargo().args(["build", "--release", "--locked"]).args(CLUSTER_FEATURE_ARGS).run()?;
            target_dir().join("release/hydrant")
        }
    };
    let binary = std::path::absolute(&binary)?;
    let out = std::path::absolute(&out)?;
    let scratch = out.join("scratch");
    remove_directory(&scratch)?;
    let program = Program::read(&binary)?;
    program.check_cluster_feature(&scratch.join("store"))?;
    let sources = PackageSources { program, time: time()?, release_url, scratch };
    let packages = sources.make()?;
    // No blob of an earlier run may be left.
    remove_directory(&out.join(sources.image_dir()))?;
    packages.write_to(&out)?;
    println!("in {}:", out.display());
    for (name, bytes) in packages.files().filter(|(name, _)| !name.contains('/')) {
        println!("{:>10}  {}  {name}", bytes.len(), sha256(bytes));
    }
    let skipped = if is_checked { Some(check::run(&sources, &packages, &out)?) } else { None };
    remove_directory(&sources.scratch)?;
    skipped.map_or(Ok(()), |skipped| skipped.report(is_strict))
}

fn time() -> Result<u64> {
    let text = match std::env::var(TIME) {
        Ok(text) => text,
        Err(_) => Cmd::new("git")
            .args(["log", "-1", "--format=%ct"])
            .dir(&root())
            .output()
            .with_context(|| format!("the time of the newest commit; or set {TIME}"))?,
    };
    text.trim().parse().with_context(|| format!("{TIME}: not seconds: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_the_feature_is_not_packaged() {
        let out = std::env::temp_dir().join(format!("hydrant-dist-{}", std::process::id()));
        // It ends with success, whatever its arguments are, and prints nothing.
        let args = ["--binary", "/bin/true", "--out", &out.to_string_lossy()].map(str::to_owned);
        let err = run(&args).expect_err("it lists no snapshots");
        assert!(format!("{err:#}").contains("`--features cluster`: hydrant snapshots"), "{err:#}");
        let files = std::fs::read_dir(&out).expect("the scratch directory is in it");
        let names: Vec<_> = files.flatten().map(|file| file.file_name()).collect();
        assert_eq!(names, ["scratch"]);
        remove_directory(&out).expect("it is empty");
    }
}
