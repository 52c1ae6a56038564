//! Exported policies.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rlox_nn::exported::Policy;
use safetensors::SafeTensors;

/// Returns the files that `rlox export` wrote.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rlox-nn/tests/data");
        let entries = fs::read_dir(folder).expect("the folder of policies");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|ext| ext == "safetensors")).collect();
        paths.sort();
        paths.iter().map(|path| fs::read(path).expect("a policy")).collect()
    })
}

/// Returns the text that describes the policy of a file.
fn description_of(file: &[u8]) -> String {
    let (_, header) = SafeTensors::read_metadata(file).expect("a policy");
    header.metadata().as_ref().expect("a description")["rlox"].clone()
}

/// Returns a valid input for each file: the number of the file, and its description.
#[must_use]
pub fn valid_descriptions() -> Vec<Vec<u8>> {
    let seed = |(number, file): (u8, &Vec<u8>)| [&[number], description_of(file).as_bytes()].concat();
    (0..).zip(files()).map(seed).collect()
}

/// Reads a policy and runs it on a few observations.
pub(crate) fn run_policy(data: &[u8]) {
    let Ok(mut policy) = Policy::from_bytes(data) else { return };
    let mut action = policy.action();
    for value in [0.0, 1.0, -1e30, f32::NAN] {
        let obs = vec![value; policy.obs_dim()];
        drop(policy.act(&obs, &mut action));
        drop(policy.outputs(&obs).map(<[f32]>::len));
    }
    policy.check().expect("it was checked when it was read");
}

/// Runs a policy with the tensors of a file and another description.
pub(crate) fn run_described(data: &[u8]) {
    let Some((&number, text)) = data.split_first() else { return };
    let Some(file) = files().get(usize::from(number) % files().len()) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let tensors = SafeTensors::deserialize(file).expect("a policy").tensors();
    let metadata = [("rlox".to_owned(), text.to_owned())].into();
    run_policy(&safetensors::serialize(tensors, Some(metadata)).expect("a file"));
}
