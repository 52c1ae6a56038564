//! Standard normal numbers from random bits: Wichura's algorithm AS 241 (`PPND16`, Applied
//! Statistics 37, 1988), in float64 within 6 units in the last place.
//!
//! The code is never fused and uses this crate's logarithm, so a number is the same on every CPU
//! and never changes.

#![expect(clippy::excessive_precision, reason = "the digits of the paper")]
#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use multiversion::multiversion;

use super::Float;
use super::log::ln_of_non_subnormal;

/// Number of elements that each loop processes.
const BLOCK: usize = 64;

/// The tails begin at this distance of the probability from 1/2.
const CENTRAL_RANGE: f64 = 0.425;
/// The far tails begin at this sqrt(-ln p): p < 1.4e-11.
const FAR_TAIL_FROM: f64 = 5.0;

/// Coefficients of a numerator or denominator, the highest power first.
type Polynomial = [f64; 8];

const CENTRAL: [Polynomial; 2] = [
    [
        2.509_080_928_730_122_672_7e3,
        3.343_057_558_358_812_810_5e4,
        6.726_577_092_700_870_085_3e4,
        4.592_195_393_154_987_145_7e4,
        1.373_169_376_550_946_112_5e4,
        1.971_590_950_306_551_442_7e3,
        1.331_416_678_917_843_774_5e2,
        3.387_132_872_796_366_608_0,
    ],
    [
        5.226_495_278_852_854_561_0e3,
        2.872_908_573_572_194_267_4e4,
        3.930_789_580_009_271_061_0e4,
        2.121_379_430_158_659_586_7e4,
        5.394_196_021_424_751_107_7e3,
        6.871_870_074_920_579_083_0e2,
        4.231_333_070_160_091_125_2e1,
        1.0,
    ],
];

const NEAR_TAIL: [Polynomial; 2] = [
    [
        7.745_450_142_783_414_076_40e-4,
        2.272_384_498_926_918_458_33e-2,
        2.417_807_251_774_506_117_70e-1,
        1.270_458_252_452_368_382_58,
        3.647_848_324_763_204_605_04,
        5.769_497_221_460_691_405_50,
        4.630_337_846_156_545_295_90,
        1.423_437_110_749_683_577_34,
    ],
    [
        1.050_750_071_644_416_843_24e-9,
        5.475_938_084_995_344_946_00e-4,
        1.519_866_656_361_645_719_66e-2,
        1.481_039_764_274_800_745_90e-1,
        6.897_673_349_851_000_045_50e-1,
        1.676_384_830_183_803_849_40,
        2.053_191_626_637_758_821_87,
        1.0,
    ],
];

const FAR_TAIL: [Polynomial; 2] = [
    [
        2.010_334_399_292_288_132_65e-7,
        2.711_555_568_743_487_578_15e-5,
        1.242_660_947_388_078_438_60e-3,
        2.653_218_952_657_612_309_30e-2,
        2.965_605_718_285_048_912_30e-1,
        1.784_826_539_917_291_335_80,
        5.463_784_911_164_114_369_90,
        6.657_904_643_501_103_777_20,
    ],
    [
        2.044_263_103_389_939_785_64e-15,
        1.421_511_758_316_445_888_70e-7,
        1.846_318_317_510_054_681_80e-5,
        7.868_691_311_456_132_591_00e-4,
        1.487_536_129_085_061_485_25e-2,
        1.369_298_809_227_358_053_10e-1,
        5.998_322_065_558_879_376_90e-1,
        1.0,
    ],
];

/// Writes the standard normal number of each draw. Its cumulative probability is (2 m + 1) / 2^53,
/// where m is the upper 52 bits of the draw.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
pub(crate) fn fill_normals<F: Float>(draws: &[[u8; 8]], out: &mut [F]) {
    for (draws, out) in draws.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        // The loops process whole blocks, also for the last, shorter one. So the compiler adds no
        // code for a remainder.
        let (mut centred, mut distances, mut normals) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        for (centred, draw) in centred.iter_mut().zip(draws) {
            *centred = centred_probability(u64::from_le_bytes(*draw));
        }
        let mut any_far = 0;
        for (distance, &q) in distances.iter_mut().zip(&centred) {
            // The argument of this logarithm is never subnormal.
            *distance = (-ln_of_non_subnormal::<false>(0.5 - q.abs(), 0.0)).sqrt();
            any_far |= u64::from(*distance > FAR_TAIL_FROM);
        }
        for ((normal, &q), &distance) in normals.iter_mut().zip(&centred).zip(&distances) {
            *normal = quantile(q, distance);
        }
        if any_far != 0 {
            replace_far_tails(&centred, &distances, &mut normals);
        }
        for (out, &normal) in out.iter_mut().zip(&normals) {
            *out = F::from_f64(normal);
        }
    }
}

/// Returns the probability of a draw minus 1/2, exactly.
#[inline(always)]
fn centred_probability(draw: u64) -> f64 {
    const HALF_STEP: f64 = 1.0 / 9_007_199_254_740_992.0; // 2^-53
    (f64::from_bits(0x3ff0_0000_0000_0000 | (draw >> 12)) - 1.5) + HALF_STEP
}

/// Returns the number with the cumulative probability q + 1/2. `distance` is sqrt(-ln p) of the
/// probability p of its tail. If `distance` is above [`FAR_TAIL_FROM`], the result is wrong, and the
/// caller replaces it.
#[inline(always)]
fn quantile(q: f64, distance: f64) -> f64 {
    let (central_r, tail_r) = (0.180_625 - q * q, distance - 1.6);
    let central = CENTRAL.map(|polynomial| horner(polynomial, central_r));
    let tail = NEAR_TAIL.map(|polynomial| horner(polynomial, tail_r));
    // The selection works on bits, since the compiler would make branches of a comparison.
    let central_mask = u64::from(q.abs() <= CENTRAL_RANGE).wrapping_neg();
    let select =
        |a: f64, b: f64| f64::from_bits((a.to_bits() & central_mask) | (b.to_bits() & !central_mask));
    let ([central, central_denominator], [tail, tail_denominator]) = (central, tail);
    select(central * q, tail.copysign(q)) / select(central_denominator, tail_denominator)
}

/// Replaces the numbers in far tails; one draw in 36 billion is there.
#[cold]
fn replace_far_tails(centred: &[f64], distances: &[f64], normals: &mut [f64]) {
    for ((normal, &q), &distance) in normals.iter_mut().zip(centred).zip(distances) {
        if distance > FAR_TAIL_FROM {
            let [numerator, denominator] = FAR_TAIL.map(|p| horner(p, distance - FAR_TAIL_FROM));
            *normal = (numerator / denominator).copysign(q);
        }
    }
}

#[inline(always)]
fn horner(polynomial: Polynomial, r: f64) -> f64 {
    let [a7, a6, a5, a4, a3, a2, a1, a0] = polynomial;
    ((((((a7 * r + a6) * r + a5) * r + a4) * r + a3) * r + a2) * r + a1) * r + a0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal_of(draw: u64) -> f64 {
        let mut out = [0.0];
        fill_normals(&[draw.to_le_bytes()], &mut out);
        out[0]
    }

    #[test]
    fn the_mapping_from_draws_never_changes() {
        // The numbers come from an independent implementation in Python of AS 241 and fdlibm's
        // logarithm.
        for (draw, bits) in [
            (0x1333_3333_3333_3000, 0xbff7_0852_26d3_e521),
            (0x1333_3333_3333_4000, 0xbff7_0852_26d3_e51a),
            (0x1200_0000_0000_0000, 0xbff7_9352_bd2f_fc6d),
            (0x1117_0000, 0xc01a_90b8_df52_9501),
            (0x0ea6_0000, 0xc01a_a7f2_2d1f_c781),
            (0x0006_4000, 0xc01e_2fda_f972_c702),
            (0x1000, 0xc020_2734_508d_1f1c),
            (0, 0xc020_6b48_528c_ea51),
            (0x8000_0000_0000_0000, 0x3cb4_0d93_1ff6_2707),
        ] {
            assert_eq!(normal_of(draw).to_bits(), bits, "{draw:#x}: {}", normal_of(draw));
            assert_eq!(normal_of(!draw).to_bits(), bits ^ (1 << 63), "{draw:#x} with all bits inverted");
        }
    }
}
