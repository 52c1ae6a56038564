//! Writes valid inputs into a folder for each target: `cargo run --example seeds FOLDER`.

use std::fs;
use std::path::Path;

use rlox_fuzz::{
    Draft, check_honest, honest_descriptions, honest_drafts, honest_files, honest_snapshots,
    honest_states,
};

fn main() -> std::io::Result<()> {
    check_honest();
    let folder = std::env::args().nth(1).unwrap_or_else(|| "corpus".to_owned());
    let bytes = |drafts: Vec<Draft>| drafts.iter().map(Draft::to_bytes).collect();
    let (segments, manifests) = honest_files();
    for (target, seeds) in [
        ("segment", segments),
        ("manifest", manifests),
        ("replay", bytes(honest_drafts())),
        ("state", bytes(honest_states())),
        ("snapshot", honest_snapshots()),
        ("description", honest_descriptions()),
    ] {
        let place = Path::new(&folder).join(target);
        fs::create_dir_all(&place)?;
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(place.join(format!("honest-{number}.bin")), seed)?;
        }
    }
    Ok(())
}
