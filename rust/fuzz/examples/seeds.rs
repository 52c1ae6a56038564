//! Writes valid inputs into a folder for each target: `cargo run --example seeds FOLDER`.

use std::fs;
use std::path::Path;

use rlox_fuzz::{
    Draft, check_valid_drafts, valid_descriptions, valid_drafts, valid_files, valid_snapshots, valid_states,
};

fn main() -> std::io::Result<()> {
    check_valid_drafts();
    let folder = std::env::args().nth(1).unwrap_or_else(|| "corpus".to_owned());
    let bytes = |drafts: Vec<Draft>| drafts.iter().map(Draft::to_bytes).collect();
    let (segments, manifests) = valid_files();
    for (target, seeds) in [
        ("segment", segments),
        ("manifest", manifests),
        ("replay", bytes(valid_drafts())),
        ("state", bytes(valid_states())),
        ("snapshot", valid_snapshots()),
        ("description", valid_descriptions()),
    ] {
        let target_folder = Path::new(&folder).join(target);
        fs::create_dir_all(&target_folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(target_folder.join(format!("honest-{number}.bin")), seed)?;
        }
    }
    Ok(())
}
