//! A cache in memory before something slow. It takes the memory it is given and no more: what
//! nobody asks for gives way.

use silica::{Cache, Result};
use std::time::Duration;

/// Something slow, or dear.
fn page(number: u64) -> String {
    std::thread::sleep(Duration::from_micros(50));
    format!("page {number} ").repeat(100)
}

fn cached(cache: &Cache, number: u64) -> Result<Vec<u8>> {
    let key = number.to_le_bytes();
    if let Some(page) = cache.get(key)? {
        return Ok(page);
    }
    let page = page(number);
    cache.put_with_ttl(key, &page, Duration::from_secs(60))?;
    Ok(page.into_bytes())
}

fn main() -> Result<()> {
    let cache = Cache::new(16 << 20)?;
    // Some pages are asked for far more often than others.
    let (mut random, mut asked) = (1u64, 0u64);
    while asked < 20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (random >> 33) % (1 << (1 + asked % 12));
        assert!(cached(&cache, number)?.starts_with(format!("page {number} ").as_bytes()));
        asked += 1;
    }
    let pages = cache.count(true)?.estimate;
    println!(
        "{pages} pages in the cache; {:.0} % of what was asked was there",
        hit_percent(&cache)
    );

    // Only a look, without a copy of the page.
    let bytes = cache.get_with(1u64.to_le_bytes(), |entry| entry.map(|entry| entry.value.len()))?;
    assert_eq!(bytes, Some(page(1).len()));
    cache.clear()?;
    assert_eq!(cache.get(1u64.to_le_bytes())?, None);
    Ok(())
}

fn hit_percent(cache: &Cache) -> f64 {
    let metrics = cache.metrics();
    100.0 * metrics.get("get_hits") / metrics.get("gets").max(1.0)
}
