"""Find the commit of a range that broke the build, the results or the speed."""
