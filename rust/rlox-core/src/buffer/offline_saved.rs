//! Saving and restoring a dataset: its rows are written once, later saves only list them.

use std::path::Path;

use super::archive::{Archive, Restored, Saved};
use super::offline::{OfflineDataset, floats, is_float, schema_dtype};
use super::returns::to_go;
use super::ring::Ring;
use super::scaling::Scaling;
use super::schema::Schema;
use super::storage::{Row, Storage};
use crate::error::{Error, Result};
use crate::store::Manifest;

/// Column of the moments, those of one observation column after the other.
const MOMENTS: &str = "moments";
/// Column of whether observations are normalised, 0 or 1.
const NORMALIZED: &str = "normalized";

impl OfflineDataset {
    /// Saves the dataset and where its draws stand as `name` in `folder`; see
    /// [`super::RingBuffer::save`]. Only the first save into a folder writes rows.
    ///
    /// # Errors
    /// As there.
    pub fn save(&mut self, folder: &Path, name: &str) -> Result<Saved> {
        let moments = self.scaling.iter().flatten().flat_map(Scaling::to_row);
        let moments = moments.flat_map(f64::to_le_bytes).collect();
        let own = [(MOMENTS, 8, moments), (NORMALIZED, 1, vec![u8::from(self.normalized)])];
        self.archive.save(&self.storage, &self.draws, folder, name, &own)
    }

    /// Continues from what a dataset of the same columns and number of rows, both normalised or
    /// both not, saved as `name` in `folder`: the same rows, moments and draws.
    ///
    /// # Errors
    /// As [`super::RingBuffer::load`]. Nothing is changed then.
    pub fn load(&mut self, folder: &Path, name: &str) -> Result<()> {
        let restored = Archive::load(self.storage.empty_copy()?, folder, name)?;
        let Restored { ring: Ring { storage, draws, archive }, manifest } = restored;
        let normalized = manifest.column(NORMALIZED)? == [1].as_slice();
        if normalized != self.normalized {
            return Err(Error::snapshot("normalize", normalized, self.normalized));
        }
        if storage.len() != storage.capacity() {
            let got = format!("{} rows", storage.len());
            return Err(Error::snapshot("dataset", got, format!("{} rows", storage.capacity())));
        }
        self.scaling = moments(storage.schema(), &manifest)?;
        (self.episodes, self.to_go) = returns(&storage);
        (self.storage, self.draws, self.archive) = (storage, draws, archive);
        Ok(())
    }
}

/// The moments of each float observation column.
fn moments(schema: &Schema, manifest: &Manifest) -> Result<Vec<Option<Scaling>>> {
    let bytes = manifest.column(MOMENTS)?.as_chunks();
    let numbers: Vec<f64> = bytes.0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let mut rest = numbers.as_slice();
    let wrong = || Error::snapshot("moments", format!("{} numbers", numbers.len()), "the schema's");
    let mut all = Vec::with_capacity(schema.obs().len());
    for column in schema.obs() {
        let width = column.field.len();
        all.push(if is_float(column.field.dtype) {
            let (row, later) = rest.split_at_checked(2 * width).ok_or_else(wrong)?;
            rest = later;
            Some(Scaling::from_row(row, width).ok_or_else(wrong)?)
        } else {
            None
        });
    }
    if rest.is_empty() && bytes.1.is_empty() { Ok(all) } else { Err(wrong()) }
}

/// The episodes and the returns to go of the rows held.
fn returns(storage: &Storage) -> (Vec<super::Episode>, Vec<f64>) {
    let rows: Vec<Row> = storage.rows().collect();
    let width = storage.schema().columns().get(Schema::REWARDS).map_or(0, crate::Field::row_bytes);
    let mut rewards = vec![0; rows.len() * width];
    storage.gather_column(Schema::REWARDS, &rows, &mut rewards);
    let (mut terminated, mut truncated) = (vec![0; rows.len()], vec![0; rows.len()]);
    storage.gather_flags(&rows, &mut terminated, &mut truncated);
    let rewards = floats(schema_dtype(storage.schema(), Schema::REWARDS), &rewards);
    to_go(&rewards, &terminated, &truncated)
}
