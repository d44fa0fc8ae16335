"""Processes of one owner that train a slot together: each is a machine of a plan (:mod:`pol.split`)."""
