//! Serves the model of kaspad for clients in other languages, and obeys commands on stdin, one a line.
//!
//! `cargo run -p testkit --example kaspa_node`. The first line of stdout has both addresses. Each command replies with
//! a line: `mine N` and `siblings N` with the sink, `reorganize DEPTH` with the number of blocks that left and joined.
#![expect(clippy::print_stdout, reason = "the replies to commands")]

use std::error::Error;
use std::io::BufRead;

use testkit::kaspa_node::KaspaNode;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let node = runtime.block_on(KaspaNode::start());
    println!("borsh {} json {}", node.borsh(), node.json());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (command, number) = line.split_once(' ').ok_or("a command and a number")?;
        let number: usize = number.parse()?;
        match command {
            "mine" => {
                node.mine(number);
                println!("{}", node.sink());
            }
            "siblings" => {
                node.mine_siblings(number);
                println!("{}", node.sink());
            }
            "reorganize" => {
                let path = node.reorganize(number);
                println!("{} {}", path.removed.len(), path.added.len());
            }
            other => return Err(format!("unknown command {other}").into()),
        }
    }
    Ok(())
}
