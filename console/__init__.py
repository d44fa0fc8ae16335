"""The console: a web page of a node, for people who look and never sign."""
