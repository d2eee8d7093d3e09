"""Every patch in a process, foreign or ours: a snapshot of each module, compared at the end. Changes no slot."""
