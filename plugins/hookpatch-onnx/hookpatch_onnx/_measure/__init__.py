"""Measure how much two compared models differ in numbers: their weights, and what they compute on one input."""
