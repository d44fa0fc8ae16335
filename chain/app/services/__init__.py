"""The queries of a node as one table, which gRPC, REST and ABCI queries use (:mod:`chain.app.services.table`)."""
