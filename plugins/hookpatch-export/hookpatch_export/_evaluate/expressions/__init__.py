"""Evaluate an expression. Imports no call and no statement: a call goes through the frame's walk."""
