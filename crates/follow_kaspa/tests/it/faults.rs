//! Lost, doubled and late notifications, cut connections, a restarted node.

use kaspa::{Event, Method};
use testkit::eventually::eventually;
use testkit::kaspa_node::{Disturbance, KaspaNode};

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disturbed_notifications_are_found_and_healed() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    for disturbance in [Disturbance::Lost, Disturbance::Doubled, Disturbance::Late] {
        for event in [Event::UtxosChanged, Event::VirtualChainChanged] {
            node.disturb(event, disturbance);
            // A contradiction is taken as a lost message after 16 messages.
            node.mine(20);
            world.reach_virtual(&node).await;
        }
    }
    assert_eq!(world.status.chain().counters.refused, 0);
    assert_eq!(world.status.sessions(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_of_notifications_leads_to_the_same_state() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    let orders = [
        [
            Event::UtxosChanged,
            Event::VirtualChainChanged,
            Event::VirtualDaaScoreChanged,
            Event::SinkBlueScoreChanged,
            Event::NewBlockTemplate,
        ],
        [
            Event::VirtualDaaScoreChanged,
            Event::UtxosChanged,
            Event::NewBlockTemplate,
            Event::VirtualChainChanged,
            Event::SinkBlueScoreChanged,
        ],
    ];
    for order in orders {
        node.set_notification_order(&order);
        node.mine(5);
        node.reorganize(2);
        world.reach_virtual(&node).await;
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_opened_again() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    for messages in 0..12 {
        world.reach_virtual(&node).await;
        let sessions = world.status.sessions();
        node.cut_after(messages);
        node.mine(2);
        world.wait(|status| status.sessions() > sessions).await;
    }
    world.reach_virtual(&node).await;
    assert_eq!(world.status.chain().counters.refused, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_database_is_not_followed() {
    let node = KaspaNode::start().await;
    let chain = node.mine(200);
    let world = World::follow(&node);
    world.reach_sink(&node).await;
    let proven = world.status.proven();
    node.reset();
    world
        .wait(|status| status.problem().is_some_and(|it| it.contains("does not have block")))
        .await;
    assert_eq!(world.status.proven(), proven, "what is proven stays");
    assert_eq!(proven.hash, chain[199]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_before_a_reply_are_applied_after_it() {
    let node = KaspaNode::start().await;
    node.mine(10);
    let world = World::follow(&node);
    world.reach_virtual(&node).await;
    node.delay_replies(Method::GetVirtualChainFromBlockV2);
    node.mine(20);
    node.reorganize(4);
    node.release_replies();
    world.reach_virtual(&node).await;
    eventually(|| world.status.is_connected(), String::new).await;
    world.stop().await;
}
