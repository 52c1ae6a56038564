//! Advantages of completions relative to their group: GRPO and its variants.

use multiversion::multiversion;

use crate::error::{Error, Result, check_len};
use crate::interrupt::CheckPace;
use crate::math::{Float, lanes};

/// The divisor of the centred rewards of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The standard deviation of the group: GRPO (Shao et al. 2024, eq. 3).
    Group,
    /// The standard deviation of all rewards of the batch, across groups (Liu et al. 2025, "Part I:
    /// Tricks or Traps?").
    Batch,
    /// 1: Dr. GRPO (Liu et al. 2025, "Understanding R1-Zero-Like Training").
    None,
}

impl Scale {
    /// All names, in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["group", "batch", "none"];

    /// Returns the scale of this name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the known names.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "group" => Ok(Self::Group),
            "batch" => Ok(Self::Batch),
            "none" => Ok(Self::None),
            _ => Err(Error::unknown_name("scale", name, &Self::NAMES)),
        }
    }
}

/// The settings by which rewards become advantages: `(r - mean) / (std + eps)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    scale: Scale,
    ddof: usize,
    eps: f64,
}

impl Scaling {
    /// Returns the settings. A standard deviation divides by n - `ddof`.
    ///
    /// # Errors
    /// [`Error::Config`] unless `eps` is finite and not negative.
    pub fn new(scale: Scale, ddof: usize, eps: f64) -> Result<Self> {
        if eps.is_finite() && eps >= 0.0 {
            return Ok(Self { scale, ddof, eps });
        }
        Err(Error::config("eps", eps, "a finite number >= 0"))
    }
}

/// Sums of squares that the fast path accepts. Beyond this range squares overflow or lose bits.
const FAST_PATH_SQUARES: std::ops::Range<f64> = 1e-240..1e240;

/// Number of groups that are computed together, so that the sums and divisions of one group do not
/// wait for those of another.
const GROUPS_PER_BLOCK: usize = 16;

/// A standard deviation of at most this many units of rounding of the first reward counts as no
/// spread.
const MAX_NOISE_UNITS: f64 = 4.0;

/// Computes the advantages of groups of `group_size` rewards, one group after the other, `[n_groups
/// * group_size]`.
///
/// All advantages of a group without spread are 0. A group has no spread if its population standard
/// deviation is at most 4 units of rounding of its first reward, in the precision of the input.
/// Advantages are also 0 if their divisor is a standard deviation of at most `ddof` rewards.
///
/// The function subtracts the first reward of each group and computes in float64, so that equal
/// rewards leave no rounding error. Each sum has 8 lanes.
///
/// # Errors
/// [`Error::Config`] if `group_size` is 0, [`Error::Shape`] if a slice does not fit,
/// [`Error::NonFinite`] if a reward is NaN or infinite, [`Error::Interrupted`].
pub fn group_advantages<F: Float>(
    rewards: &[F],
    group_size: usize,
    scaling: Scaling,
    out: &mut [F],
) -> Result<()> {
    if group_size == 0 {
        return Err(Error::config("group_size", 0, "at least 1"));
    }
    let n = rewards.len() / group_size;
    check_len("rewards", rewards.len(), n * group_size, "a multiple of group_size")?;
    check_len("out", out.len(), rewards.len(), "as many as rewards")?;
    match scaling.scale {
        Scale::Group => scale_groups(rewards, group_size, scaling, None, out),
        Scale::None => scale_groups(rewards, group_size, scaling, Some(Divisor::ONE), out),
        Scale::Batch => {
            let divisor = Divisor::of_batch(rewards, scaling)?;
            scale_groups(rewards, group_size, scaling, Some(divisor), out)
        }
    }
}

/// The divisor of centred rewards: the product of `value` and `unit`. They are kept apart where the
/// product might overflow; elsewhere `unit` is None.
#[derive(Debug, Clone, Copy)]
struct Divisor {
    unit: Option<f64>,
    value: f64,
}

impl Divisor {
    const ONE: Self = Self { unit: None, value: 1.0 };

    fn of_batch<F: Float>(rewards: &[F], scaling: Scaling) -> Result<Self> {
        let dof = degrees_of_freedom(rewards.len(), scaling.ddof);
        if let Some(moments) = batch_moments(rewards).filter(Moments::is_in_fast_range) {
            return Ok(Self { unit: None, value: std_dev(moments.squares, dof) + scaling.eps });
        }
        Ok(ScaledMoments::of(rewards, 0)?.map_or(Self::ONE, |scaled| Self {
            unit: Some(scaled.unit),
            value: std_dev(scaled.moments.squares, dof) * scaled.width + scaling.eps / scaled.unit,
        }))
    }
}

/// The mean of rewards minus `origin`, and their sum of squares about that mean.
#[derive(Debug, Clone, Copy)]
struct Moments {
    origin: f64,
    mean: f64,
    squares: f64,
}

#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
impl Moments {
    /// Returns moments whose `squares` are not computed yet.
    #[inline(always)]
    fn centre<F: Float>(rewards: &[F]) -> Self {
        let origin = rewards.first().map_or(0.0, |first| first.to_f64());
        let mean = lanes::sum(rewards, |r| r.to_f64() - origin) / as_f64(rewards.len());
        Self { origin, mean, squares: 0.0 }
    }

    #[inline(always)]
    fn centred<F: Float>(&self, reward: F) -> f64 {
        (reward.to_f64() - self.origin) - self.mean
    }

    #[inline(always)]
    fn add_squares<F: Float>(&mut self, rewards: &[F]) {
        self.squares = lanes::sum(rewards, |reward| {
            let centred = self.centred(reward);
            centred * centred
        });
    }

    #[inline(always)]
    fn is_in_fast_range(&self) -> bool {
        FAST_PATH_SQUARES.contains(&self.squares)
    }

    /// Returns whether the spread is no more than rounding.
    #[inline(always)]
    fn is_noise<F: Float>(&self, width: f64, count: f64) -> bool {
        let noise = MAX_NOISE_UNITS * F::EPSILON.to_f64() * self.origin;
        self.squares * (width * width) <= noise * noise * count
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn batch_moments<F: Float>(rewards: &[F]) -> Option<Moments> {
    if rewards.is_empty() {
        return None;
    }
    let mut moments = Moments::centre(rewards);
    moments.add_squares(rewards);
    Some(moments)
}

/// Computes all groups. Each is divided by its own standard deviation unless there is a `divisor`.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn scale_groups<F: Float>(
    rewards: &[F],
    group_size: usize,
    scaling: Scaling,
    divisor: Option<Divisor>,
    out: &mut [F],
) -> Result<()> {
    let (count, dof) = (as_f64(group_size), degrees_of_freedom(group_size, scaling.ddof));
    let shared_factor = divisor.filter(|divisor| divisor.unit.is_none()).map(|divisor| 1.0 / divisor.value);
    let is_fast = divisor.is_none() == shared_factor.is_none();
    let block_len = group_size.saturating_mul(GROUPS_PER_BLOCK);
    let blocks = rewards.chunks(block_len).zip(out.chunks_mut(block_len));
    let mut pace = CheckPace::default();
    for (block, (rewards, out)) in blocks.enumerate() {
        pace.spend(rewards.len())?;
        let mut block_moments = [Moments { origin: 0.0, mean: 0.0, squares: 0.0 }; GROUPS_PER_BLOCK];
        for (moments, rewards) in block_moments.iter_mut().zip(rewards.chunks_exact(group_size)) {
            *moments = Moments::centre(rewards);
        }
        for (moments, rewards) in block_moments.iter_mut().zip(rewards.chunks_exact(group_size)) {
            moments.add_squares(rewards);
        }
        let slices = rewards.chunks_exact(group_size).zip(out.chunks_exact_mut(group_size));
        for (group, ((rewards, out), moments)) in slices.zip(&block_moments).enumerate() {
            if is_fast && moments.is_in_fast_range() && !moments.is_noise::<F>(1.0, count) {
                let group_factor = || 1.0 / (std_dev(moments.squares, dof) + scaling.eps);
                let factor = shared_factor.unwrap_or_else(group_factor);
                for (out, &reward) in out.iter_mut().zip(rewards) {
                    *out = F::from_f64(moments.centred(reward) * factor);
                }
            } else {
                let first_index = block * block_len + group * group_size;
                scale_rare_group(rewards, first_index, dof, scaling.eps, divisor, out)?;
            }
        }
    }
    Ok(())
}

/// Computes a group without spread, with numbers that are not finite, or with numbers so large or
/// small that squares leave the range of float64.
#[cold]
fn scale_rare_group<F: Float>(
    rewards: &[F],
    first_index: usize,
    dof: f64,
    eps: f64,
    divisor: Option<Divisor>,
    out: &mut [F],
) -> Result<()> {
    out.fill(F::ZERO);
    let Some(ScaledMoments { unit, width, moments }) = ScaledMoments::of(rewards, first_index)? else {
        return Ok(());
    };
    if moments.is_noise::<F>(width, as_f64(rewards.len())) {
        return Ok(());
    }
    for (out, reward) in out.iter_mut().zip(rewards) {
        let centred = (reward.to_f64() / unit - moments.origin) / width - moments.mean;
        *out = F::from_f64(match divisor {
            None => centred / (std_dev(moments.squares, dof) + eps / unit / width),
            Some(divisor) => centred * width * (unit / divisor.unit.unwrap_or(1.0)) / divisor.value,
        });
    }
    Ok(())
}

/// Moments of rewards that are scaled to magnitudes of about 1: of
/// `(reward / unit - moments.origin) / width`.
struct ScaledMoments {
    unit: f64,
    width: f64,
    moments: Moments,
}

impl ScaledMoments {
    /// Returns the moments of rewards, or None if all rewards are the same. In an error, the index of
    /// a reward counts from `first_index`.
    fn of<F: Float>(rewards: &[F], first_index: usize) -> Result<Option<Self>> {
        let bad_index = rewards.iter().position(|reward| !reward.to_f64().is_finite());
        if let Some((at, reward)) = bad_index.and_then(|at| Some((at, rewards.get(at)?))) {
            let (index, value) = (first_index + at, reward.to_f64());
            return Err(Error::NonFinite { name: "rewards".into(), index, value });
        }
        let largest = |values: &[f64]| values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let mut values: Vec<f64> = rewards.iter().map(|reward| reward.to_f64()).collect();
        let unit = largest(&values);
        let origin = values.first().map_or(0.0, |first| first / unit);
        for value in &mut values {
            *value = *value / unit - origin;
        }
        let width = largest(&values);
        for value in &mut values {
            *value /= width;
        }
        let mean = lanes::sum(&values, |v| v) / as_f64(values.len());
        let squares = lanes::sum(&values, |v| (v - mean) * (v - mean));
        let moments = Moments { origin, mean, squares };
        Ok((unit > 0.0 && width > 0.0).then_some(Self { unit, width, moments }))
    }
}

/// Returns a standard deviation; infinity if it is not defined.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn std_dev(squares: f64, dof: f64) -> f64 {
    if dof > 0.0 { (squares / dof).sqrt() } else { f64::INFINITY }
}

/// Returns n - ddof.
fn degrees_of_freedom(n: usize, ddof: usize) -> f64 {
    as_f64(n) - as_f64(ddof)
}

#[expect(clippy::cast_precision_loss, reason = "no slice has 2^53 elements")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
