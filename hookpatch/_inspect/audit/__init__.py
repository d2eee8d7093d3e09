"""Every patch in a process, whoever made it: a snapshot of each module, compared at the end. Changes no slot."""
