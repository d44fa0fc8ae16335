"""Codecs of updates as plain tensor functions, which are captured as parts of the job."""
