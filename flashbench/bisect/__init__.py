"""Which commit of a range broke the build, the results or the speed."""
