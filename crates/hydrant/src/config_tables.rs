//! The configuration file of a node: the settings of every node as keys, and a table for each producer.
//!
//! One file serves all commands: each reads its own table, and only checks the keys of the others. The settings of
//! `hydrant dev` are also keys outside of a table. A setting is a key of its table or of the file, and not of both.

use serde::Deserialize;
use toml::de::Error;

use crate::config_text::ConfigText;
use crate::follow::flags::{FollowFlags, FollowerFlags};
use crate::follow_kaspa::flags::{FollowKaspaFlags, KaspaFollowerFlags};
use crate::local::flags::DevFlags;
use crate::node::flags::ConfigFlags;
use crate::node::{Merge, NodeFlags};
#[cfg(feature = "cluster")]
use crate::replica::flags::ReplicaCommandFlags;
use crate::replica::flags::ReplicaFlags;

/// The tables of the producers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ProducerTables {
    dev: DevFlags,
    follow: FollowerFlags,
    #[serde(rename = "follow-kaspa")]
    follow_kaspa: KaspaFollowerFlags,
    replica: ReplicaFlags,
}

impl DevFlags {
    /// Reads the settings of a configuration file. An unknown key is refused.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Error> {
        let mut file = ConfigText::new(text);
        let tables: ProducerTables = file.part()?;
        let keys = Self { node: NodeFlags::from_file(&mut file)?, ..file.part()? };
        file.check_keys()?;
        file.check_repeated_keys("dev")?;
        Ok(tables.dev.merge(keys))
    }
}

impl FollowFlags {
    /// Reads the settings of a configuration file. An unknown key is refused.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Error> {
        let mut file = ConfigText::new(text);
        let tables: ProducerTables = file.part()?;
        let node = NodeFlags::from_file(&mut file)?;
        file.check_keys()?;
        Ok(Self { config: ConfigFlags::default(), follower: tables.follow, node })
    }
}

#[cfg(feature = "cluster")]
impl ReplicaCommandFlags {
    /// Reads the settings of a configuration file. An unknown key is refused.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Error> {
        let mut file = ConfigText::new(text);
        let tables: ProducerTables = file.part()?;
        let node = NodeFlags::from_file(&mut file)?;
        file.check_keys()?;
        Ok(Self { config: ConfigFlags::default(), replica: tables.replica, node })
    }
}

impl FollowKaspaFlags {
    /// Reads the settings of a configuration file. An unknown key is refused.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Error> {
        let mut file = ConfigText::new(text);
        let tables: ProducerTables = file.part()?;
        let node = NodeFlags::from_file(&mut file)?;
        file.check_keys()?;
        Ok(Self::from_parts(tables.follow_kaspa, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the refusals of a file by each command.
    fn refusals(file: &str) -> [Option<Error>; 4] {
        [
            DevFlags::from_toml(file).err(),
            FollowFlags::from_toml(file).err(),
            ReplicaCommandFlags::from_toml(file).err(),
            FollowKaspaFlags::from_toml(file).err(),
        ]
    }

    #[test]
    fn one_file_has_the_settings_of_both_commands() {
        let file = "io-threads = 3\n[quic]\nshards = 2\n[dev]\nslot-ms = 50\nblock-mode = \"clock\"\n\
                    account = [[\"a\", \"b.json\"]]\n[follow]\nsource = [\"http://a:1\"]\nsend = \"upstream\"";
        let dev = DevFlags::from_toml(file).expect("valid settings");
        assert_eq!((dev.slot_ms, dev.account.len()), (Some(50), 2));
        assert_eq!((dev.node.threads.io_threads, dev.node.tables.quic.shards), (Some(3), 2));
        let follow = FollowFlags::from_toml(file).expect("valid settings");
        assert_eq!(follow.follower.source, ["http://a:1"]);
        assert_eq!((follow.node.threads.io_threads, follow.node.tables.quic.shards), (Some(3), 2));
    }

    #[test]
    fn each_command_refuses_unknown_keys_of_all_tables() {
        for (file, unknown) in [
            ("[dev]\nslot-ms = 1\nslot-mss = 2", "slot-mss"),
            ("[follow]\nsources = []", "sources"),
            ("[follow-kaspa]\nreorg-depths = 1", "reorg-depths"),
            ("[dev]\nio-threads = 1", "io-threads"),
            // Constants have no key.
            ("[pool]\nslice_us = 0", "slice_us"),
            ("[pool.heavy]\nweight = 2", "weight"),
            ("[quic]\nwindow_max = 64", "window_max"),
        ] {
            for err in refusals(file) {
                let err = err.expect(file).to_string();
                assert!(err.contains(&format!("unknown field `{unknown}`")), "{err}");
                assert!(err.contains("line "), "{err}");
            }
        }
        let wrong = DevFlags::from_toml("[dev]\nslot-ms = \"x\"").expect_err("a text").to_string();
        assert!(wrong.contains("line 2"), "{wrong}");
    }

    #[test]
    fn a_key_of_the_file_that_is_also_in_the_table_of_dev_is_refused() {
        for (file, key) in [
            ("slot-ms = 50\nio-threads = 2\n[dev]\nwarp-slot = 7\nslot-ms = 50", "slot-ms"),
            ("account = []\n[quic]\n[dev]\n\naccount = []", "account"),
            ("slot-ms = 1\n\n\n\ndev.slot-ms = 2", "slot-ms"),
        ] {
            let err = DevFlags::from_toml(file).expect_err(file).to_string();
            let places = format!(
                "`{key}` is set in [dev] and at the top of the file: remove one of the two"
            );
            assert!(err.contains(&places) && err.contains("line 5"), "{err}");
        }
        let both = "slot-ms = 1\n[dev]\nwarp-slot = 2\n[follow]\nsource = []\nsnapshot = \"a\"";
        assert!(DevFlags::from_toml(both).is_ok());
    }

    #[test]
    fn an_address_is_a_name_in_a_file_as_on_the_command_line() {
        for key in ["bind-address", "advertised-ip"] {
            for value in ["127.0.0.1", "localhost"] {
                let listen = DevFlags::from_toml(&format!("{key} = \"{value}\""));
                let listen = listen.expect("an address").node.listen;
                let address = listen.bind_address.or(listen.advertised_ip).expect("it is set");
                assert!(address.is_loopback(), "{address}");
            }
            let file = format!("slot-ms = 1\n{key} = \"a b\"");
            let err = DevFlags::from_toml(&file).expect_err("not a name").to_string();
            assert!(err.contains("line 2") && err.contains("a b: "), "{err}");
        }
    }

    #[test]
    fn a_table_is_not_an_array_of_its_values() {
        let producers = ["dev", "follow", "follow-kaspa", "replica"];
        for name in ["rpc", "pool", "pubsub", "grpc", "quic"].into_iter().chain(producers) {
            for file in [format!("{name} = []"), format!("{name} = [2]"), format!("[[{name}]]")] {
                for err in refusals(&file) {
                    let err = err.expect(&file).to_string();
                    assert!(err.contains("expected a table of settings"), "{err}");
                    assert!(err.contains("line 1"), "{err}");
                }
            }
        }
        for file in ["[pool]\nheavy = [5, 5, 5]", "pool = { clients = [] }"] {
            let err = DevFlags::from_toml(file).expect_err(file).to_string();
            assert!(err.contains("expected a table of settings"), "{err}");
        }
    }

    #[test]
    fn a_setting_of_dev_is_a_key_of_its_table_or_of_the_file() {
        for file in ["slot-ms = 50", "[dev]\nslot-ms = 50"] {
            assert_eq!(DevFlags::from_toml(file).expect("valid settings").slot_ms, Some(50));
        }
        // More than an `i64` counts.
        for file in ["", "[dev]\n"].map(|table| format!("{table}warp-slot = {}", u64::MAX)) {
            let flags = DevFlags::from_toml(&file).expect("valid settings");
            assert_eq!(flags.warp_slot, Some(Some(u64::MAX)));
        }
        assert!(FollowFlags::from_toml("slot-ms = 50").is_err());
        assert!(FollowFlags::from_toml("[dev]\nslot-ms = 50").is_ok());
    }
}
