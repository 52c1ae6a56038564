//! Acting allocates no memory: reading allocates all buffers.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;

use rlox_nn::exported::Policy;

#[test]
fn an_action_of_any_policy_allocates_nothing() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut played = 0;
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "safetensors") {
            continue;
        }
        let mut policy = Policy::read(&path).unwrap();
        let (mut action, obs) = (policy.action(), vec![0.25; policy.obs_dim()]);
        let used = allocation_counter::measure(|| {
            for _ in 0..100 {
                policy.act(&obs, &mut action).unwrap();
            }
        });
        assert_eq!((used.count_total, used.bytes_total), (0, 0), "{}", path.display());
        played += 1;
    }
    assert_eq!(played, 20);
    let counted = allocation_counter::measure(|| drop(vec![0_u8; 100]));
    assert_eq!(counted.count_total, 1, "the counter counts");
}
