//! Tests that need no process of their own: one binary, and a module for each.

use silica_base::CountingAllocator;

mod hostile_datagrams;
mod hostile_input;
mod hostile_memcached;
mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
