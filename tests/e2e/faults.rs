//! Members that fail, hang or refuse.
