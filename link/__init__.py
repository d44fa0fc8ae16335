"""The link between a validator and those who call it (``assay.cluster.v1``)."""
