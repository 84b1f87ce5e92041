//! Room 3: where does it go? Filter, score, pick, bind.
