"""One patch in one session: waiting for its module, applied, ended. The kind of target decides how."""
