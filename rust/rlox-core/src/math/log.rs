//! Natural logarithm in float64, as in fdlibm (`e_log.c`), without branches.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use super::mul_add;

const MANTISSA: u64 = (1 << 52) - 1;
/// The bits of sqrt(1/2), where the range of the reduced mantissa begins.
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
/// The distance of the bits of 1 from [`ROOT_HALF`].
const ROOT_HALF_TO_ONE: u64 = 0x3ff0_0000_0000_0000 - ROOT_HALF;
/// The bits of 2^52, whose unit in the last place is 1.
const INTEGERS: u64 = 0x4330_0000_0000_0000;
/// 2^52 + 1023.
const INTEGERS_BIAS: f64 = 4_503_599_627_371_519.0;

/// ln 2 = `LN_2_HIGH` + `LN_2_LOW`, the first with 33 bits.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

const L1: f64 = f64::from_bits(0x3fe5_5555_5555_5593);
const L2: f64 = f64::from_bits(0x3fd9_9999_9997_fa04);
const L3: f64 = f64::from_bits(0x3fd2_4924_9422_9359);
const L4: f64 = f64::from_bits(0x3fcc_71c5_1d8e_78af);
const L5: f64 = f64::from_bits(0x3fc7_4664_96cb_03de);
const L6: f64 = f64::from_bits(0x3fc3_9a09_d078_c69f);
const L7: f64 = f64::from_bits(0x3fc2_f112_df3e_5244);

/// Returns ln x with an error below 1 unit in the last place; -infinity for 0, NaN for negative x
/// and for NaN.
#[inline(always)]
pub(super) fn ln<const FUSED: bool>(x: f64) -> f64 {
    const SCALE: f64 = 18_014_398_509_481_984.0; // 2^54
    let tiny = x < f64::MIN_POSITIVE;
    let scaled = if tiny { x * SCALE } else { x };
    let result = ln_of_non_subnormal::<FUSED>(scaled, if tiny { 54.0 } else { 0.0 });
    let result = if x < f64::INFINITY { result } else { x };
    let special_value = if x == 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    if x > 0.0 { result } else { special_value }
}

/// Returns ln x - `twos` ln 2 of a positive normal number x.
///
/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), and ln(1 + f) = f - f^2/2 + s (f^2/2 + R),
/// where s is f / (2 + f) and R is a polynomial of s^2.
#[inline(always)]
pub(super) fn ln_of_non_subnormal<const FUSED: bool>(x: f64, twos: f64) -> f64 {
    let fma = mul_add::<f64, FUSED>;
    let bits = x.to_bits().wrapping_add(ROOT_HALF_TO_ONE);
    let k = f64::from_bits(INTEGERS | (bits >> 52)) - INTEGERS_BIAS - twos;
    let f = f64::from_bits((bits & MANTISSA) + ROOT_HALF) - 1.0;
    let ratio = f / (2.0 + f);
    let z = ratio * ratio;
    let z2 = z * z;
    let even = z2 * fma(z2, fma(z2, L6, L4), L2);
    let odd = z * fma(z2, fma(z2, fma(z2, L7, L5), L3), L1);
    let half = 0.5 * f * f;
    let low = fma(ratio, half + (even + odd), k * LN_2_LOW);
    fma(k, LN_2_HIGH, (low - half) + f)
}
