"""Reports of a build to the person who started it: the reason for a refusal, the line of this person's code, and
notes.
"""
