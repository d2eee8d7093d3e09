"""The measurement of the scan: model classes of transformers, what their captures did, what the scan said."""
