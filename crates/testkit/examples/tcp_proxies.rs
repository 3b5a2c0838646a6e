//! Serves TCP proxies for programs without an async runtime, and obeys commands on stdin, one a line.
//!
//! `cargo run -p testkit --example tcp_proxies --features tcp-proxy`. `open ADDRESS` starts a proxy of a server, and
//! replies with the proxy's address. `DIRECTION FLOW ADDRESS` sets the flow of the proxy at this address: the
//! direction is `to-server`, `to-client` or `both`, and the flow is `pass`, `hold`, `cut`, or a rate in bytes per
//! second. It replies with `ok`. The proxies end with the program, which ends with its stdin.
#![expect(clippy::print_stdout, reason = "the replies to commands")]

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::net::SocketAddr;

use testkit::tcp_proxy::{Direction, Flow, TcpProxy};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut proxies: HashMap<SocketAddr, TcpProxy> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["open", server] => {
                let proxy = runtime.block_on(TcpProxy::start(server.parse()?));
                println!("{}", proxy.address());
                proxies.insert(proxy.address(), proxy);
            }
            [direction, flow, address] => {
                let address: SocketAddr = address.parse()?;
                let proxy = proxies.get(&address).ok_or("no proxy at this address")?;
                let flow = parse_flow(flow)?;
                match direction {
                    "to-server" => proxy.set_flow(Direction::ToServer, flow),
                    "to-client" => proxy.set_flow(Direction::ToClient, flow),
                    "both" => proxy.set_flows(flow),
                    other => return Err(format!("unknown direction {other}").into()),
                }
                println!("ok");
            }
            _ => return Err(format!("unknown command {line}").into()),
        }
    }
    Ok(())
}

fn parse_flow(word: &str) -> Result<Flow, Box<dyn Error>> {
    Ok(match word {
        "pass" => Flow::Pass,
        "hold" => Flow::Hold,
        "cut" => Flow::Cut,
        rate => Flow::Slow { bytes_per_s: rate.parse()? },
    })
}
