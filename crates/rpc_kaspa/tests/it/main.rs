//! wRPC and the messages of gRPC over a chain in memory: methods, lists, subscriptions, positions, forwarding, and
//! clients that misbehave.

mod address_changes;
mod address_client;
mod address_resume;
mod bad_input;
mod fake_forward;
mod forwarding;
mod golden;
mod lists;
mod methods;
mod notifications;
mod own_methods;
mod protobuf;
mod publisher_thread;
mod subscriber_floods;
mod subscriptions;
mod world;
mod wrpc_client;
