//! The store for asynchronous programs: calls that are futures, of any executor (feature `async`).
//!
//! A [`Pool`] has a few threads, and every call that would wait for the device goes to them. One
//! that waits is a future and no thread: thousands may wait on two threads, since gets that wait
//! together are looked up as one burst, and writes that wait together share one sync. A get whose
//! answer is in memory is answered where it is asked.
//!
//! ```
//! # let name = format!("silica-doc-aio-{}", std::process::id());
//! # let path = std::env::temp_dir().join(name);
//! use silica::aio::Pool;
//!
//! # fn block_on<F: std::future::Future>(future: F) -> F::Output {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
//! #             return done;
//! #         }
//! #         std::thread::yield_now();
//! #     }
//! # }
//! let store = silica::open(&path)?;
//! let pool = Pool::new(2)?;
//! let users = pool.keyspace(&store.keyspace("users")?);
//! let found = block_on(async {
//!     users.put("ann", "blue").await?;
//!     users.put("bob", "green").await?;
//!     users.get("ann").await
//! })?;
//! assert_eq!(found.as_deref(), Some(&b"blue"[..]));
//! # drop((users, pool));
//! store.close()?;
//! # std::fs::remove_dir_all(&path).ok();
//! # Ok::<(), silica::Error>(())
//! ```
//!
//! **Order**: a call takes effect between its first poll and its answer, as if another thread had
//! made it. Of two that wait at the same time either may be first; await the one that is to be.
//!
//! **A future that is dropped** before its answer has asked for nothing, if it was not polled, or
//! did not reach the threads yet. A write that reached them happens.

mod keyspace;
mod pool;
mod range;

pub use keyspace::Keyspace;
pub use pool::Pool;
pub use range::Range;
