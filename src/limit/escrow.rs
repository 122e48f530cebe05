//! The grantor's side of a limit that holds for the world.
