//! Element types of arrays. The table at the end of this file is the only list of them.

use crate::error::{Error, Result};

/// Declares the element types: variant, NumPy's name, Rust's type.
macro_rules! dtypes {
    (($d:tt) $($(#[$doc:meta])* $variant:ident, $name:literal, $rust:ty;)+) => {
        /// The type of an array's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Dtype {
            $($(#[$doc])* $variant,)+
        }

        impl Dtype {
            /// All element types.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the bytes per element.
            #[must_use]
            pub const fn size(self) -> usize {
                match self { $(Self::$variant => size_of::<$rust>(),)+ }
            }

            /// Returns NumPy's name of the type.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        /// `with_dtype!(dtype, T => value)` evaluates `value` with `T` as the Rust type of `dtype`.
        #[macro_export]
        macro_rules! with_dtype {
            ($d dtype:expr, $d name:ident => $d value:expr) => {
                match $d dtype {
                    $($crate::Dtype::$variant => { type $d name = $rust; $d value })+
                }
            };
        }
    };
}

impl Dtype {
    /// Returns the type that NumPy calls `name`.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        let known_dtype = Self::ALL.iter().find(|dtype| dtype.name() == name);
        known_dtype.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|dtype| dtype.name()).collect();
            Error::unknown_name("dtype", name, &names)
        })
    }

    /// Returns whether the elements are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

dtypes! {
    ($)
    /// Unsigned 8-bit integers, such as image pixels.
    U8, "uint8", u8;
    /// Unsigned 16-bit integers, such as depth images.
    U16, "uint16", u16;
    /// Unsigned 32-bit integers, such as hashes.
    U32, "uint32", u32;
    /// Unsigned 64-bit integers, such as indices.
    U64, "uint64", u64;
    /// Signed 8-bit integers.
    I8, "int8", i8;
    /// Signed 16-bit integers.
    I16, "int16", i16;
    /// Signed 32-bit integers.
    I32, "int32", i32;
    /// Signed 64-bit integers.
    I64, "int64", i64;
    /// Single precision.
    F32, "float32", f32;
    /// Double precision.
    F64, "float64", f64;
    /// Booleans, one byte each.
    Bool, "bool", bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dtype_is_parsed_from_its_name_and_an_unknown_name_suggests_the_nearest() {
        for &dtype in Dtype::ALL {
            assert_eq!(Dtype::parse(dtype.name()), Ok(dtype));
        }
        let message = Dtype::parse("float23").unwrap_err().to_string();
        assert!(message.contains("did you mean float32"), "{message}");
    }
}
