"""The measurement of the scan: models of transformers, the results of captures, and the findings."""
