//! Hashes of keys, for finding rows that may be equal.
//!
//! Not cryptographic: equal keys have equal hashes, and where hashes are equal the keys themselves are compared, so a
//! collision costs time and never changes a result.

const K1: u64 = 0x9e37_79b9_7f4a_7c15;
const K2: u64 = 0xbf58_476d_1ce4_e5b9;
const K3: u64 = 0x94d0_49bb_1331_11eb;

/// How keys are hashed: all 64 bits, unless a test keeps fewer of them to force collisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash {
    mask: u64,
}

impl KeyHash {
    pub const STRONG: KeyHash = KeyHash { mask: u64::MAX };

    /// One that keeps these bits only.
    #[cfg(test)]
    pub fn weak(mask: u64) -> Self {
        Self { mask }
    }

    /// Of a number: a bijection of it, so with all bits there is no collision at all.
    #[inline]
    pub fn number(self, number: u64) -> u64 {
        let x = number.wrapping_add(K1);
        let x = (x ^ (x >> 30)).wrapping_mul(K2);
        let x = (x ^ (x >> 27)).wrapping_mul(K3);
        (x ^ (x >> 31)) & self.mask
    }

    /// Of bytes.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> u64 {
        let mut state = K3 ^ (bytes.len() as u64);
        let mut rest = bytes;
        while let Some((block, after)) = rest.split_first_chunk::<16>() {
            state = fold_block(state, *block);
            rest = after;
        }
        if !rest.is_empty() {
            let mut block = [0u8; 16];
            for (to, from) in block.iter_mut().zip(rest) {
                *to = *from;
            }
            state = fold_block(state, block);
        }
        self.number(state)
    }
}

#[inline]
fn fold_block(state: u64, block: [u8; 16]) -> u64 {
    let both = u128::from_le_bytes(block);
    let (low, high) = (both as u64, (both >> 64) as u64);
    fold(low ^ K1 ^ state, high ^ K2 ^ state.rotate_left(32))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// How many chunks of hashes there are: one for each first byte of a hash.
const BUCKETS: usize = 256;
const CHUNK: usize = 1024;

/// Hashes, scattered by their first byte, so that each bucket is small enough to sort fast. Grows by chunks: nothing
/// is copied, and no more than a chunk a bucket is held in reserve.
#[derive(Debug)]
pub(crate) struct Hashes {
    buckets: Vec<Vec<Vec<u64>>>,
    count: u64,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); BUCKETS], count: 0 }
    }
}

impl Hashes {
    #[inline]
    pub fn push(&mut self, hash: u64) {
        self.count += 1;
        let Some(bucket) = self.buckets.get_mut((hash >> 56) as usize) else { return };
        match bucket.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(hash),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(hash);
                bucket.push(chunk);
            }
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes another's hashes over.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            bucket.extend(more);
        }
    }

    /// The hashes that occur more than once, ascending, at most so many; and whether there are more.
    pub fn repeated(self, most: usize) -> (Vec<u64>, bool) {
        let mut repeated = Vec::new();
        for bucket in self.buckets {
            let mut hashes: Vec<u64> = Vec::with_capacity(bucket.iter().map(Vec::len).sum());
            for chunk in bucket {
                hashes.extend_from_slice(&chunk);
            }
            hashes.sort_unstable();
            for equal in hashes.chunk_by(|a, b| a == b) {
                let (Some(hash), true) = (equal.first(), equal.len() > 1) else { continue };
                if repeated.len() >= most {
                    return (repeated, true);
                }
                repeated.push(*hash);
            }
        }
        (repeated, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_tell_lengths_and_places_apart() {
        let inputs: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"ab", b"ba", &[0; 16], &[0; 17], b"0123456789abcdef0123456789abcdeg"];
        let hashes: std::collections::BTreeSet<_> = inputs.iter().map(|bytes| KeyHash::STRONG.bytes(bytes)).collect();
        assert_eq!(hashes.len(), inputs.len());
        let numbers: std::collections::BTreeSet<_> = (0..1000).map(|number| KeyHash::STRONG.number(number)).collect();
        assert_eq!(numbers.len(), 1000);
        assert_eq!(KeyHash::weak(0).bytes(b"a"), KeyHash::weak(0).bytes(b"b"));
    }

    #[test]
    fn repeated_hashes_are_found_across_merged_workers() {
        let (mut one, mut two) = (Hashes::default(), Hashes::default());
        for number in 0..10_000 {
            one.push(KeyHash::STRONG.number(number));
            two.push(KeyHash::STRONG.number(number + 9_998));
        }
        one.push(KeyHash::STRONG.number(5));
        one.push(KeyHash::STRONG.number(5));
        one.merge(two);
        assert_eq!(one.count(), 20_002);
        let mut expected: Vec<_> = [5, 9_998, 9_999].map(|number| KeyHash::STRONG.number(number)).into();
        expected.sort();
        assert_eq!(one.repeated(10), (expected, false));
        let mut same = Hashes::default();
        [1, 1, 2, 2].into_iter().for_each(|hash| same.push(hash));
        assert_eq!(same.repeated(1), (vec![1], true));
    }
}
