//! Which LUNs an application gets.

use silica_device::blocks::Geometry;

/// Deals `count` of the free LUNs to the channels in turn, beginning with the channel that has
/// most of them; in each channel those with the fewest erases come first. `erases` has the mean
/// of every LUN of the device, and `None` for those that are not free. By channel the LUNs'
/// numbers; `None` if there are too few.
pub(crate) fn deal(
    geometry: &Geometry,
    erases: &[Option<u64>],
    count: u32,
) -> Option<Vec<Vec<u32>>> {
    let mut free: Vec<Vec<u32>> = (0..geometry.channels)
        .map(|channel| {
            let luns = channel * geometry.luns..(channel + 1) * geometry.luns;
            let mut free: Vec<u32> = luns.filter(|lun| erases[*lun as usize].is_some()).collect();
            // From the back, where they are taken.
            silica_base::compact_sort_by_key(&mut free, |lun| {
                std::cmp::Reverse((erases[*lun as usize], *lun))
            });
            free
        })
        .collect();
    let fullest = |channel: &usize| (free[*channel].len(), std::cmp::Reverse(*channel));
    let first = (0..free.len()).max_by_key(fullest)?;
    let mut dealt = vec![Vec::new(); free.len()];
    let mut left = count;
    while left > 0 {
        let before = left;
        for turn in 0..free.len() {
            let channel = (first + turn) % free.len();
            if left > 0
                && let Some(lun) = free[channel].pop()
            {
                dealt[channel].push(lun);
                left -= 1;
            }
        }
        if left == before {
            return None;
        }
    }
    Some(dealt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Geometry = Geometry {
        channels: 12,
        luns: 16,
        blocks: 128,
        pages: 512,
        page_bytes: 16_384,
        spare_bytes: 0,
    };

    /// The example of 003…, 3.4.1: 24 GB are two LUNs of each channel, and 25 % over-provisioning
    /// are six more.
    #[test]
    fn luns_are_dealt_as_in_the_paper() {
        let free = vec![Some(0); 192];
        let dealt = deal(&PAPER, &free, 24).unwrap();
        let all: Vec<Vec<u32>> = (0..12).map(|c| vec![16 * c, 16 * c + 1]).collect();
        assert_eq!(dealt, all);
        let dealt = deal(&PAPER, &free, 30).unwrap();
        let counts: Vec<usize> = dealt.iter().map(Vec::len).collect();
        assert_eq!(counts, [3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn the_emptiest_channel_and_the_coldest_luns_come_first() {
        let mut free = vec![Some(5); 192];
        // Channel 0 has given most of its LUNs, channel 1 one, and LUN 40 of channel 2 is cold.
        free[..14].fill(None);
        free[16] = None;
        free[40] = Some(1);
        let dealt = deal(&PAPER, &free, 2).unwrap();
        assert_eq!((&dealt[2][..], &dealt[3][..]), (&[40][..], &[48][..]));
        // Those of channel 0 run out.
        let dealt = deal(&PAPER, &free, 36).unwrap();
        assert_eq!(dealt[0], [14, 15]);
        assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), 36);
        assert!(deal(&PAPER, &free, 178).is_none(), "177 are free");
        assert!(deal(&PAPER, &free, 177).is_some());
    }
}
