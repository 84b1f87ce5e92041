//! Edge: mirrors, trees and watches of git repositories, through gix.
