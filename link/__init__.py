"""The link between a validator and its callers (``assay.cluster.v1``)."""
