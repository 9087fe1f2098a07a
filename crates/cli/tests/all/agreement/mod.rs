//! Three members as processes, what clients see while members are killed, stopped and cut off, and
//! how members come and go.

mod asynchronous;
mod clients;
mod faults;
mod group;
mod histories;
mod members;
mod namespaces;
mod porcupine;
mod proxy;
