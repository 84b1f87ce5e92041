//! Enums of constant strings: condition types, reasons, kinds of journal entries.

use std::fmt;
use std::marker::PhantomData;

use serde::de::Visitor;

/// A string that gitfleet writes, with its meaning.
#[derive(Clone, Debug)]
pub struct Known<T> {
    /// The string.
    pub value: T,
    /// The type or section it belongs to.
    pub section: &'static str,
    /// Its meaning, and when it is written.
    pub meaning: &'static str,
    /// The names of the facts in its entries.
    pub fields: &'static [&'static str],
}

/// Deserializes such a string without a copy.
pub(crate) struct AsText<T>(PhantomData<T>);

impl<T> AsText<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: for<'a> From<&'a str>> Visitor<'_> for AsText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text))
    }
}

/// Declares an enum whose variants serialize as their names. An unknown string is kept as `Other`, so that records of another
/// version are read and written without loss.
macro_rules! text_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($section:literal {
                $($(#[doc = $meaning:literal])+ $variant:ident $([$($field:literal),+])?,)+
            })+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($($(#[doc = $meaning])+ $variant,)+)+
            /// A string of another version.
            Other(Box<str>),
        }

        impl $name {
            /// Every variant with its meaning, in the order of declaration.
            pub const ALL: &'static [$crate::texts::Known<Self>] = &[$($(
                $crate::texts::Known {
                    value: Self::$variant,
                    section: $section,
                    meaning: concat!($($meaning),+),
                    fields: &[$($($field),+)?],
                },
            )+)+];

            /// Returns the string.
            pub fn as_str(&self) -> &str {
                match self {
                    $($(Self::$variant => stringify!($variant),)+)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($(stringify!($variant) => Self::$variant,)+)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::texts::AsText::new())
            }
        }
    };
}

pub(crate) use text_enum;
