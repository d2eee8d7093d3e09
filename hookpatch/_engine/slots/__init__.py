"""The places that hold a value: attribute, item, function, part. Knows no layer."""
