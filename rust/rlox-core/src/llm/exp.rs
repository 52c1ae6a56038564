//! e^x in parts, without branches, so that loops over it vectorise and e^x - 1 - x keeps its
//! precision near 0.
//!
//! Cody and Waite's reduction x = k ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts of which the
//! first is short enough for k times it to be exact. (e^r - 1 - r) / r^2 is a minimax polynomial
//! (Remez exchange in 50 digits) of relative error 3e-18 in float64 and 3e-9 in float32.

/// e^x = `scale` (1 + `reduced` + `excess`).
#[derive(Clone, Copy)]
pub(super) struct Parts<F> {
    /// 2^k, exactly; 1 for |x| < 0.34.
    pub(super) scale: F,
    /// r = x - k ln 2; x itself where `scale` is 1.
    pub(super) reduced: F,
    /// e^r - 1 - r, which is r^2 times a positive number.
    pub(super) excess: F,
}

/// Below, e^x counts as 0; above [`HIGHEST_64`], as infinity.
pub(super) const LOWEST_64: f64 = -708.0;
pub(super) const HIGHEST_64: f64 = 709.0;
/// The same in float32.
pub(super) const LOWEST_32: f32 = -87.0;
pub(super) const HIGHEST_32: f32 = 88.0;

/// 1.5 x 2^52: adding it rounds to an integer, which then stands in the low bits.
const ROUND_64: f64 = 6_755_399_441_055_744.0;
const LN_2_HIGH_64: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW_64: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

const C_64: [f64; 11] = [
    0.5,
    f64::from_bits(0x3fc5_5555_5555_5557),
    f64::from_bits(0x3fa5_5555_5555_554e),
    f64::from_bits(0x3f81_1111_1111_00eb),
    f64::from_bits(0x3f56_c16c_16c1_a07e),
    f64::from_bits(0x3f2a_01a0_1abe_0cdb),
    f64::from_bits(0x3efa_01a0_1905_fed3),
    f64::from_bits(0x3ec7_1de0_2458_9b6c),
    f64::from_bits(0x3e92_7e51_0dc7_8a13),
    f64::from_bits(0x3e5a_f4dc_4933_3af4),
    f64::from_bits(0x3e21_f19f_6d0a_5067),
];

/// 1.5 x 2^23.
const ROUND_32: f32 = 12_582_912.0;
const LN_2_HIGH_32: f32 = f32::from_bits(0x3f31_7200);
const LN_2_LOW_32: f32 = f32::from_bits(0x35bf_be8e);

const C_32: [f32; 6] = [
    0.5,
    f32::from_bits(0x3e2a_aaab),
    f32::from_bits(0x3d2a_aa75),
    f32::from_bits(0x3c08_88a6),
    f32::from_bits(0x3ab6_a16d),
    f32::from_bits(0x3950_3962),
];

/// The parts of e^x; below [`LOWEST_64`] and for NaN those of its value there. Above [`HIGHEST_64`]
/// they mean nothing, and the caller selects another result.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn parts_64(x: f64) -> Parts<f64> {
    let x = if x > LOWEST_64 { x } else { LOWEST_64 };
    let shifted = x * std::f64::consts::LOG2_E + ROUND_64;
    let k = shifted - ROUND_64;
    let r = (x - k * LN_2_HIGH_64) - k * LN_2_LOW_64;
    // The low bits are k; moved into the exponent and biased they are 2^k.
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10] = C_64;
    let r2 = r * r;
    let r4 = r2 * r2;
    let low = (c0 + c1 * r) + (c2 + c3 * r) * r2;
    let middle = (c4 + c5 * r) + (c6 + c7 * r) * r2;
    let high = (c8 + c9 * r) + c10 * r2;
    Parts { scale, reduced: r, excess: r2 * (low + (middle + high * r4) * r4) }
}

/// [`parts_64`] in float32.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn parts_32(x: f32) -> Parts<f32> {
    let x = if x > LOWEST_32 { x } else { LOWEST_32 };
    let shifted = x * std::f32::consts::LOG2_E + ROUND_32;
    let k = shifted - ROUND_32;
    let r = (x - k * LN_2_HIGH_32) - k * LN_2_LOW_32;
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    let [c0, c1, c2, c3, c4, c5] = C_32;
    let r2 = r * r;
    let low = (c0 + c1 * r) + (c2 + c3 * r) * r2;
    let high = c4 + c5 * r;
    Parts { scale, reduced: r, excess: r2 * (low + high * (r2 * r2)) }
}
