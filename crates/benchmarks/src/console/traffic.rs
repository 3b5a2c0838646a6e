//! The requests of an open page, by view: read from `web_console::TRAFFIC`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// All views.
#[derive(Deserialize)]
pub(super) struct Traffic {
    /// The figures in the page's scripts, by file and name.
    constants: BTreeMap<String, u64>,
    views: BTreeMap<String, ListedView>,
}

#[derive(Deserialize)]
struct ListedView {
    subscriptions: Vec<Subscription>,
    polls: Vec<ListedPoll>,
    blocks: Option<ListedBlocks>,
}

#[derive(Deserialize)]
struct ListedPoll {
    path: String,
    every: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedBlocks {
    whole: String,
    transactions_max: String,
    sample: String,
    every: String,
}

/// A subscription over WebSocket.
#[derive(Clone, Deserialize)]
pub(super) struct Subscription {
    pub(super) method: String,
    pub(super) params: Value,
}

/// The requests of a page with one view.
pub(super) struct View {
    pub(super) subscriptions: Vec<Subscription>,
    /// Paths, and how often each is requested.
    pub(super) polls: Vec<(String, Duration)>,
    pub(super) blocks: Option<Blocks>,
}

/// The requests by which a page reads confirmed blocks. Paths have `{slot}`.
pub(super) struct Blocks {
    /// The path of a block with few transactions.
    pub(super) whole: String,
    pub(super) transactions_max: u64,
    /// The path of a larger one, which is read at this interval at most.
    pub(super) sample: String,
    pub(super) every: Duration,
}

impl Traffic {
    pub(super) fn read() -> Result<Self> {
        serde_json::from_str(web_console::TRAFFIC).context("the page's traffic")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.views.keys().map(String::as_str)
    }

    pub(super) fn view(&self, name: &str) -> Result<View> {
        let listed = self.views.get(name).with_context(|| format!("no view {name}"))?;
        let figure =
            |name: &String| self.constants.get(name).copied().with_context(|| format!("no {name}"));
        let every = |name: &String| figure(name).map(Duration::from_millis);
        let blocks = |it: &ListedBlocks| {
            Ok::<_, anyhow::Error>(Blocks {
                whole: it.whole.clone(),
                transactions_max: figure(&it.transactions_max)?,
                sample: it.sample.clone(),
                every: every(&it.every)?,
            })
        };
        let polls = listed.polls.iter().map(|it| Ok((it.path.clone(), every(&it.every)?)));
        Ok(View {
            subscriptions: listed.subscriptions.clone(),
            polls: polls.collect::<Result<_>>()?,
            blocks: listed.blocks.as_ref().map(blocks).transpose()?,
        })
    }
}

impl View {
    /// The shortest interval of its polls.
    pub(super) fn interval_min(&self) -> Duration {
        self.polls.iter().map(|(_, every)| *every).min().unwrap_or_default()
    }
}
