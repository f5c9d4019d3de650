"""The history: asv builds and measures commits with our builds, checks and clocks."""
